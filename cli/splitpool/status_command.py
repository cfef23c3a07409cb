"""`splitpool status [NAME]`: a pool of a cluster at a glance, or all of them as a table."""

import argparse
import sys

EXIT_UNKNOWN = 2


def run(options: argparse.Namespace) -> int:
    """Show what the cluster says; the exit status."""
    try:
        # Neither the other commands nor their start should need the cluster's client.
        from splitpool.status import showing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "kubernetes":
            raise
        text = "status needs the package kubernetes: pip install 'splitpool[operator]'"
        print(f"splitpool: {text}", file=sys.stderr)
        return EXIT_UNKNOWN
    return showing.run(options)
