"""`splitpool up FILE`: the pools of a file, served on this machine."""

import argparse
import sys

from splitpool import pool_file
from splitpool.output import complain
from splitpool_operator.local.console import Console
from splitpool_operator.local.refusals import Refused


def run(options: argparse.Namespace) -> int:
    """Serve the pools of a file until a signal; the exit status."""
    # Here, since the other commands start faster without an HTTP client.
    from splitpool_operator.local import up as local
    from splitpool_operator.local.options import Options

    plans = pool_file.plans(options.file)
    if isinstance(plans, pool_file.Unusable):
        return pool_file.complain(plans)
    for plan in plans:
        if plan.pool.spec.autoscaling.mode != "Off":
            name = plan.pool.metadata.name
            complain(f"splitpool: {name}: autoscaling needs a cluster; replicas stay as declared")
    chosen = Options(
        host=options.host,
        port=options.port,
        state_dir=options.state_dir,
        log_dir=options.log_dir,
        worker_flags=options.worker_flag,
        router_flags=options.router_flag,
    )
    try:
        return local.run(plans, chosen, Console.of(sys.stdout))
    except Refused as refused:
        complain(f"splitpool: {refused}")
        return refused.code
