"""The `splitpool` command: reads arguments, calls the package that does the work."""

import sys
from collections.abc import Sequence

from splitpool import commands, exits, output
from splitpool.output import Unwritable
from splitpool_operator.local.refusals import EXIT_NOT_WRITABLE


def main(arguments: Sequence[str] | None = None, prog: str = commands.PROG) -> None:
    """Entry point of the console script."""
    output.prepare()
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments), prog)
    except BrokenPipeError:
        output.abandon()
        code = exits.PIPE_CLOSED
    except Unwritable as error:
        output.abandon()
        output.complain(
            f"{prog}: standard output cannot be written: {error}; free room or write elsewhere"
        )
        code = EXIT_NOT_WRITABLE
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    sys.exit(code)


def _run(arguments: list[str], prog: str) -> int:
    parser = commands.parser(prog)
    if not arguments:
        output.complain(parser.format_help())
        return 2
    if arguments[0] == "help":
        arguments = [*arguments[1:], "--help"]
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:
        # A help text or the version is printed, though perhaps not flushed.
        output.say()
        return int(end.code or 0)
    return int(options.run(options))
