"""How this router was started: argv and environment, parsed once."""

import argparse
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from splitpool_router.caller import ApiKey, BadKeyFile, read_keys
from splitpool_router.placing.classify import LatencyClass

MAX_BODY_BYTES = 32 * 2**20
MAX_HELD_BYTES = 512 * 2**20


class BadConfig(ValueError):
    """An argument or variable that cannot be used; the message names it and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a class may hear nothing from a worker. There is no limit on the whole."""

    connect: float
    stream_head: float  # a stream's head comes before its tokens
    whole_head: float  # without streaming the head comes after the last token
    idle: float  # a stream pings at least every 15 s

    def head(self, *, stream: bool) -> float:
        """The limit on the head of an answer."""
        return self.stream_head if stream else self.whole_head


DEFAULT_LIMITS: Mapping[LatencyClass, Limits] = {
    LatencyClass.INTERACTIVE: Limits(connect=2, stream_head=60, whole_head=600, idle=60),
    LatencyClass.BATCH: Limits(connect=5, stream_head=600, whole_head=3600, idle=120),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that the router needs to start."""

    host: str = "127.0.0.1"
    port: int = 8080
    # Where pools and workers are found: in a file, or in a cluster (in all namespaces or in some).
    endpoints: Path | None = None
    cluster: bool = False
    namespaces: tuple[str, ...] = ()
    api_keys: tuple[ApiKey, ...] | None = None
    access_log: bool = False
    internal_token: str | None = None
    caller_key: bytes
    limits: Mapping[LatencyClass, Limits]
    # How long a client may take to send a body.
    upload_limit: float = 120.0
    # How long a client may leave what was written to it unread.
    stall_limit: float = 60.0
    sweep_period: float = 1.0
    # How long running requests get after SIGTERM at most, whatever their pools declare.
    drain_limit: float = math.inf


def parse(argv: Sequence[str], env: Mapping[str, str]) -> Config:
    """The configuration; raises BadConfig (argparse itself exits with 2)."""
    args = _parser().parse_args(argv)
    if not 0 <= args.port <= 65535:
        raise BadConfig(f"--port {args.port} is no port: give a number from 0 to 65535")
    if args.namespace and not args.cluster:
        raise BadConfig("--namespace selects pools of a cluster: give --cluster with it")
    if not args.drain_seconds >= 0:
        raise BadConfig(f"--drain-seconds {args.drain_seconds} is no duration: give 0 or more")
    try:
        keys = read_keys(args.api_keys) if args.api_keys is not None else None
    except BadKeyFile as error:
        raise BadConfig(f"--api-keys: {error}") from error
    return Config(
        host=args.host,
        port=args.port,
        endpoints=args.endpoints,
        cluster=args.cluster,
        namespaces=tuple(dict.fromkeys(args.namespace)),
        api_keys=keys,
        access_log=args.access_log,
        internal_token=env.get("SPLITPOOL_INTERNAL_TOKEN") or None,
        caller_key=_caller_key(env.get("SPLITPOOL_CALLER_KEY", "")),
        limits=DEFAULT_LIMITS,
        drain_limit=args.drain_seconds,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m splitpool_router",
        description="Sends every request to the pool of its latency class.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (0: any free)")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--endpoints", type=Path, help="file that names the pools and workers")
    source.add_argument(
        "--cluster",
        action="store_true",
        help="pools and workers are those of the cluster that this runs in, or of KUBECONFIG's",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="with --cluster: only this namespace; may be repeated (default: all)",
    )
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=math.inf,
        metavar="N",
        help="how long running requests get after SIGTERM at most (default: as their pools say)",
    )
    parser.add_argument("--api-keys", type=Path, help="JSON file of the API keys to accept")
    parser.add_argument("--access-log", action="store_true", help="log one line per request")
    return parser


def _caller_key(text: str) -> bytes:
    """The key of the caller hash; without one, one that lives as long as this router."""
    if not text:
        return secrets.token_bytes(32)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadConfig(
            "SPLITPOOL_CALLER_KEY is not hexadecimal: give e.g. 64 hex digits"
        ) from None
