"""`splitpool status [NAME]`: a pool of a cluster at a glance, or all of them as a table."""

import argparse

from splitpool import exits
from splitpool.output import complain


def run(options: argparse.Namespace) -> int:
    """Show what the cluster says; the exit status."""
    # Here, since the other commands start faster without an HTTP client.
    from splitpool.status import showing

    if options.name and options.all_namespaces:
        complain(f"{options.prog}: -A shows all pools; leave out NAME or name one -n NAMESPACE")
        return exits.CANNOT_TELL
    return showing.run(options)
