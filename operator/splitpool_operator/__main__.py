"""`python -m splitpool_operator run`: the operator of a cluster."""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.cluster import logs
from splitpool_operator.cluster.leader import Lease
from splitpool_operator.cluster.prometheus import Source
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
        lease=Lease(known.lease_name, known.lease_namespace or _own_namespace()),
        health_port=known.health_port,
        sync_seconds=known.sync_seconds,
        router=known.router,
        router_key_file=known.router_key_file,
        pace=_pace(known),
        prometheus=_prometheus(known),
        webhook_port=known.webhook_port,
        webhook_token_file=known.webhook_token_file,
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
    add("--lease-name", default="splitpool-operator", help="its name (%(default)s)")
    add("--identity", help="of this replica in the Lease (default: host name and process)")
    add(
        "--router",
        type=_host_and_port,
        metavar="HOST:PORT",
        help="a name of all routers; Ready then needs a token that came back through one",
    )
    add("--router-key-file", type=Path, help="an API key of these routers, good for both classes")
    add("--health-port", type=int, default=8081, help="of /healthz (%(default)s)")
    add("--sync-seconds", type=float, default=300.0, help="between listings (%(default)s)")
    _add_autoscaling(parser)
    add("--log-level", choices=("DEBUG", "INFO", "WARNING"), default="INFO")
    return root


def _add_autoscaling(parser: argparse.ArgumentParser) -> None:
    pace, add = Pace(), parser.add_argument
    add("--prometheus-url", type=_url, help="of signals, for pools that name none of their own")
    add("--prometheus-token-file", type=Path, help="a token for that Prometheus, and no other")
    add(
        "--webhook-token-file",
        type=Path,
        help="the token of Alertmanager's calls; without it nobody may call",
    )
    add("--webhook-port", type=int, default=8082, help="of /alerts (%(default)s)")
    add(
        "--scale-window-seconds",
        type=_seconds,
        default=pace.window,
        help="over which rates and quantiles are measured (%(default)g)",
    )
    add(
        "--scale-cooldown-seconds",
        type=_seconds,
        default=pace.cooldown,
        help="between two steps out, or a worker's start if longer (%(default)g)",
    )
    add(
        "--scale-quiet-seconds",
        type=_seconds,
        default=pace.quiet,
        help="with little to do, before a step in; also after any step before one that noise "
        "around the target could ask for (%(default)g)",
    )


def _pace(known: argparse.Namespace) -> Pace:
    return Pace(
        window=known.scale_window_seconds,
        cooldown=known.scale_cooldown_seconds,
        settle=known.scale_quiet_seconds,
        quiet=known.scale_quiet_seconds,
    )


def _prometheus(known: argparse.Namespace) -> Source | None:
    url = known.prometheus_url
    return Source(url=url, token_file=known.prometheus_token_file) if url else None


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL; write http://HOST:PORT")
    return text


def _seconds(text: str) -> float:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} are no whole seconds above 0")
    return float(text)


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no address; write HOST:PORT")
    return host, int(port)


def _own_namespace() -> str:
    return _OWN_NAMESPACE.read_text().strip() if _OWN_NAMESPACE.exists() else "default"


if __name__ == "__main__":
    sys.exit(main())
