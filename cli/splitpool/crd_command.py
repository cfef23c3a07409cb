"""`splitpool crd`: the CustomResourceDefinition, printed or written to a file."""

import argparse

from splitpool.output import complain, say
from splitpool_operator.declaration import crd
from splitpool_operator.local.refusals import EXIT_NOT_WRITABLE


def run(options: argparse.Namespace) -> int:
    """Print or write it; the exit status."""
    if options.output is None:
        say(crd.as_yaml())
        return 0
    try:
        options.output.write_text(crd.as_yaml())
    except OSError as error:
        complain(f"splitpool: {options.output} cannot be written: {error.strerror}")
        return EXIT_NOT_WRITABLE
    return 0
