"""`splitpool status [NAME]`: a pool of a cluster at a glance, or all of them as a table."""

import argparse

from splitpool import exits
from splitpool.output import complain


def run(options: argparse.Namespace) -> int:
    """Show what the cluster says; the exit status."""
    if options.name and options.all_namespaces:
        complain(f"{options.prog}: -A shows all pools; leave out NAME or name one -n NAMESPACE")
        return exits.CANNOT_TELL
    try:
        # Neither the other commands nor their start should need the cluster's client.
        from splitpool.status import showing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "kubernetes":
            raise
        text = "status needs the package kubernetes: pip install 'splitpool[operator]'"
        complain(f"splitpool: {text}")
        return exits.CANNOT_TELL
    return showing.run(options)
