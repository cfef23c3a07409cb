"""`python -m splitpool_operator run`: the operator of a cluster."""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from splitpool_operator.cluster import logs
from splitpool_operator.cluster.running import Options, run
from splitpool_operator.cluster.scope import Scope
from splitpool_operator.rendering.installation import Installation

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    known = _parser().parse_args(argv)
    logs.set_up(known.log_level)
    options = Options(
        scope=Scope(namespaces=tuple(known.namespace)),
        installation=Installation(worker_image=known.worker_image),
        identity=known.identity or f"{socket.gethostname()}-{os.getpid()}",
        lease_namespace=known.lease_namespace or _own_namespace(),
        health_port=known.health_port,
        sync_seconds=known.sync_seconds,
        router=known.router,
    )
    return asyncio.run(run(options))


def _parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="python -m splitpool_operator", allow_abbrev=False)
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    parser = commands.add_parser("run", help="make the cluster match its InferencePools")
    add = parser.add_argument
    add("--worker-image", required=True, help="of pools that name none in podTemplate")
    add("--namespace", action="append", default=[], help="watch only this one; repeatable")
    add("--lease-namespace", help="where the Lease is (default: the pod's own namespace)")
    add("--identity", help="of this replica in the Lease (default: host name and process)")
    add(
        "--router",
        type=_host_and_port,
        metavar="HOST:PORT",
        help="a name of all routers; Ready then needs a token that came back through one",
    )
    add("--health-port", type=int, default=8081, help="of /healthz (%(default)s)")
    add("--sync-seconds", type=float, default=300.0, help="between listings (%(default)s)")
    add("--log-level", choices=("DEBUG", "INFO", "WARNING"), default="INFO")
    return root


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no address; write HOST:PORT")
    return host, int(port)


def _own_namespace() -> str:
    return _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.exists() else "default"


if __name__ == "__main__":
    sys.exit(main())
