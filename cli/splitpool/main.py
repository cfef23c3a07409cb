"""The `splitpool` command: reads arguments, calls the package that does the work."""

import sys
from collections.abc import Callable, Sequence

from splitpool import commands, exits, output
from splitpool.output import Unwritable
from splitpool_operator.local.refusals import EXIT_NOT_WRITABLE


def main(arguments: Sequence[str] | None = None, prog: str = commands.PROG) -> None:
    """Entry point of the console script."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(ended(lambda: _run(given, prog), prog))


def ended(command: Callable[[], int], prog: str) -> int:
    """The exit status of a command, also where nobody takes what it says."""
    output.prepare()
    try:
        return command()
    except BrokenPipeError:
        output.abandon()
        return exits.PIPE_CLOSED
    except Unwritable as error:
        output.abandon()
        output.complain(
            f"{prog}: standard output cannot be written: {error}; free room or write elsewhere"
        )
        return EXIT_NOT_WRITABLE
    except KeyboardInterrupt:
        return exits.INTERRUPTED


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
