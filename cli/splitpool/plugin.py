"""How does kubectl call this command? As `kubectl splitpool`, and to complete its words."""

import asyncio
import sys
from collections.abc import Sequence

from splitpool import commands, completion, main
from splitpool.output import say

PROG = "kubectl splitpool"
# Cobra's directives: whether file names may stand beside the words.
_FILES_TOO, _WORDS_ONLY = ":0", ":4"


def run() -> None:
    """Entry point of `kubectl-splitpool`, which kubectl finds on the PATH."""
    main.main(prog=PROG)


def complete(words: Sequence[str] | None = None) -> None:
    """Entry point of `kubectl_complete-splitpool`: a word a line, then a directive."""
    given = list(sys.argv[1:] if words is None else words) or [""]
    sys.exit(main.ended(lambda: _complete(given), PROG))


def _complete(given: Sequence[str]) -> int:
    known = completion.commands(commands.parser(PROG))
    found = completion.candidates(known, given)
    if completion.wants_operand(known, given):
        if given[0] == "status":
            found += _pools(given)
        directive = _FILES_TOO if known[given[0]].files else _WORDS_ONLY
    else:
        directive = _WORDS_ONLY
    say("".join(f"{word}\n" for word in (*found, directive)))
    return 0


def _pools(words: Sequence[str]) -> list[str]:
    """The names of pools that begin like the last word; none where the cluster does not answer."""
    from splitpool.status import naming

    options = commands.parser(PROG).parse_args(words[:-1])
    return [each for each in asyncio.run(naming.names(options)) if each.startswith(words[-1])]
