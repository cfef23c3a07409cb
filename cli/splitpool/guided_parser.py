"""How does a parser help somebody who mistypes? It names the nearest word and where to read on."""

import argparse
import difflib
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

_CHOICE = re.compile(r"invalid choice: '(?P<word>.*?)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<word>\S+)")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Every command and its summary on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


class GuidedParser(argparse.ArgumentParser):
    """Exact option names only, texts as they are written, and suggestions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Usage, what is wrong, what may have been meant; exit status 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {' '.join(_guided(self, message))}\n")


def _guided(parser: argparse.ArgumentParser, message: str) -> Iterator[str]:
    choice, unknown = _CHOICE.search(message), _UNKNOWN.search(message)
    if choice:
        known = re.findall(r"[\w.-]+", choice["known"])
        name = message.partition(":")[0].removeprefix("argument ")
        kind = "no command" if name == "COMMAND" else f"nothing that {name} takes"
        yield f"{choice['word']!r} is {kind}; {_near(choice['word'], known)}"
    elif unknown:
        word = unknown["word"]
        said = f"{word!r} is not known here"
        close = difflib.get_close_matches(word, list(_options(parser)), n=1)
        yield f"{said}; did you mean {close[0]}?" if close else f"{said};"
    else:
        yield f"{message};"
    yield f"see {parser.prog} --help"


def _near(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)};"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Of the parser and of its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)
