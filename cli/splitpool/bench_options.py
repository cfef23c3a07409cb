"""Which options does `splitpool bench` take, and what measurement do they ask for?"""

import argparse
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from splitpool_bench.measuring import trace
from splitpool_bench.measuring.options import (
    LEAST_REPEATS,
    ClosedLoop,
    Goodput,
    Load,
    OpenLoop,
    Options,
    Replay,
    Server,
    Targets,
)
from splitpool_bench.measuring.planned import Mix, Planned, Range


class Misused(Exception):
    """Options that do not go together; the message says what does."""


def declare(command: argparse.ArgumentParser) -> None:
    """Every option, in groups."""
    command.usage = "%(prog)s [options] URL | --compare A B"
    command.add_argument(
        "url", nargs="?", metavar="URL", help="of the server, such as http://127.0.0.1:8080"
    )
    _load(command.add_argument_group("how requests arrive (one of these; default: --rate 1)"))
    what = command.add_argument_group("what they are")
    _requests(what)
    _other_class(what)
    _words(what)
    _server(command.add_argument_group("the server"))
    _report(command.add_argument_group("the measurement and its report"))


def options(given: argparse.Namespace) -> Options:
    """The measurement that was asked for. Raises Misused."""
    load = _chosen_load(given)
    targets = Targets(ttft_p99=_seconds(given.ttft_p99), tpot_p99=_seconds(given.tpot_p99))
    if isinstance(load, Goodput) and targets == Targets():
        raise Misused("--goodput needs what users accept: --ttft-p99 MS, --tpot-p99 MS or both")
    if given.shared_prefix >= given.input.low:
        raise Misused(
            f"--shared-prefix {given.shared_prefix} leaves no word of its own to a prompt of "
            f"{given.input.low} tokens; make --input longer"
        )
    other = "interactive" if given.latency_class == "batch" else "batch"
    return Options(
        load=load,
        mix=Mix(
            latency_class=given.latency_class,
            prompt=given.input,
            output=given.output,
            other_share=given.other_share,
            other_class=other,
            other_prompt=given.other_input,
            other_output=given.other_output,
        ),
        requests=given.requests,
        seconds=given.seconds,
        seed=given.seed,
        words=str(time.time_ns()),
        warm_up=given.warm_up,
        timeout=given.timeout,
        shared_prefix=given.shared_prefix,
        ignore_eos=not given.stop_early,
        beside=given.beside,
        targets=targets,
    )


def servers(given: argparse.Namespace) -> list[Server]:
    """One, or two to compare. Raises Misused."""
    urls = given.compare or [given.url]
    if given.compare and given.url:
        raise Misused(f"--compare A B names both servers; leave out {given.url}")
    if given.compare and (given.goodput or len(given.rates or ()) > 1):
        raise Misused("--compare takes one load: --rate, --users or --trace")
    if urls == [None]:
        raise Misused("name the server: splitpool bench http://127.0.0.1:8080")
    return [
        Server(
            url=_http(url),
            model=given.model,
            endpoint=given.endpoint,
            key=_key(given.api_key_env),
            metrics_url=None if given.compare else given.metrics_url,
        )
        for url in urls
    ]


def _http(url: str) -> str:
    """A URL that lacks its scheme gets http."""
    scheme, separator, _ = url.partition("://")
    if separator and scheme not in ("http", "https"):
        raise Misused(f"{url}: only http and https are spoken here")
    return url if separator else f"http://{url}"


def _chosen_load(given: argparse.Namespace) -> Load:
    if given.users:
        return ClosedLoop(users=given.users)
    if given.trace:
        return Replay(file=given.trace, requests=tuple(_trace(given)))
    if given.goodput:
        first = given.from_rate
        return Goodput(first=first, precision=given.precision, process=given.arrivals)
    return OpenLoop(rates=given.rates or (given.rate or 1.0,), process=given.arrivals)


def _trace(given: argparse.Namespace) -> list[Planned]:
    try:
        with given.trace.open(encoding="utf-8") as lines:
            return trace.read(lines, given.latency_class)
    except OSError as error:
        raise Misused(f"{given.trace}: cannot be read: {error.strerror}; check the path") from None
    except (trace.BadTrace, UnicodeDecodeError) as error:
        raise Misused(f"{given.trace}: {error}") from None


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise Misused(f"--api-key-env {variable}: no such variable; export {variable}=KEY first")
    return os.environ[variable]


def _load(group: argparse._ArgumentGroup) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument("--rate", type=_positive, metavar="R", help="open loop: R requests a second")
    one.add_argument(
        "--rates",
        type=_rates,
        metavar="R,R,...",
        help="capacity curve: an open loop at one rate after the other",
    )
    one.add_argument(
        "--users",
        type=_count,
        metavar="N",
        help="closed loop: N users, each with a new request when the last one ends",
    )
    one.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help='open loop: lines of {"at": seconds, "input": tokens, "output": tokens}',
    )
    one.add_argument(
        "--goodput",
        action="store_true",
        help="find the highest rate that keeps --ttft-p99 and --tpot-p99",
    )
    add = group.add_argument
    add(
        "--arrivals",
        choices=("poisson", "constant"),
        default="poisson",
        help="of --rate, --rates and --goodput (%(default)s)",
    )
    how_long = group.add_mutually_exclusive_group()
    how_long.add_argument(
        "--requests", type=_count, default=200, metavar="N", help="of every rate (%(default)s)"
    )
    how_long.add_argument(
        "--seconds", type=_positive, metavar="S", help="start requests for so long instead"
    )
    add("--ttft-p99", type=_positive, metavar="MS", help="target of --goodput")
    add("--tpot-p99", type=_positive, metavar="MS", help="target of --goodput")
    add(
        "--from-rate",
        type=_positive,
        default=1.0,
        metavar="R",
        help="where --goodput starts (%(default)s)",
    )
    add(
        "--precision",
        type=_positive,
        default=0.1,
        metavar="SHARE",
        help="to which --goodput finds the rate (%(default)s)",
    )


def _requests(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--input",
        type=_range,
        default=Range(low=32, high=512),
        metavar="TOKENS",
        help="prompt length, as 128 or 32-512: uniform, seeded (%(default)s)",
    )
    add(
        "--output",
        type=_range,
        default=Range(low=16, high=256),
        metavar="TOKENS",
        help="answer length (%(default)s)",
    )
    add(
        "--class",
        dest="latency_class",
        choices=trace.CLASSES,
        default="interactive",
        help="latency class (%(default)s)",
    )


def _other_class(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--other-share",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="of the requests that are of the other class (%(default)s)",
    )
    add(
        "--beside",
        type=_whole,
        default=0,
        metavar="N",
        help="keep N requests of the other class in flight meanwhile",
    )
    add(
        "--other-input",
        type=_range,
        default=Range(low=1000, high=1000),
        metavar="TOKENS",
        help="prompt length of the other class (%(default)s)",
    )
    add(
        "--other-output",
        type=_range,
        default=Range(low=256, high=256),
        metavar="TOKENS",
        help="answer length of the other class (%(default)s)",
    )


def _words(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--shared-prefix",
        type=_whole,
        default=0,
        metavar="TOKENS",
        help="that all prompts begin with, for prefix caches (%(default)s)",
    )
    add("--stop-early", action="store_true", help="let answers end before --output is reached")
    add(
        "--seed",
        type=int,
        default=1,
        help="of arrivals and lengths; words are always new (%(default)s)",
    )


def _server(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="two URLs instead of one: measured in turns with the same load, and a verdict",
    )
    add(
        "--repeats",
        type=_repeats,
        default=5,
        metavar="N",
        help="of each server with --compare (%(default)s)",
    )
    add("--model", metavar="NAME", help="default: the only one that the server has")
    add(
        "--endpoint",
        choices=("completions", "chat"),
        default="completions",
        help="of the API (%(default)s)",
    )
    add("--api-key-env", metavar="VARIABLE", help="environment variable that holds the API key")
    add(
        "--metrics-url",
        metavar="URL",
        help="where the server's own figures are read (default: URL/metrics)",
    )


def _report(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--warm-up",
        type=_whole,
        default=8,
        metavar="N",
        help="requests that come first and are not counted (%(default)s)",
    )
    add(
        "--timeout",
        type=_positive,
        default=300.0,
        metavar="S",
        help="after which a request counts as failed (%(default)s)",
    )
    add("--json", type=Path, metavar="FILE", help="write everything, every request too")
    add("--html", type=Path, metavar="FILE", help="write a page with plots, complete in one file")


def _positive(text: str) -> float:
    value = _number(text, float)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r}: must be more than 0")
    return value


def _rates(text: str) -> tuple[float, ...]:
    return tuple(_positive(each) for each in text.split(","))


def _share(text: str) -> float:
    value = _number(text, float)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: a share is from 0 to 1")
    return value


def _whole(text: str) -> int:
    return _at_least(text, 0)


def _count(text: str) -> int:
    return _at_least(text, 1)


def _repeats(text: str) -> int:
    return _at_least(text, LEAST_REPEATS)


def _at_least(text: str, least: int) -> int:
    value = _number(text, int)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r}: must be {least} or more")
    return int(value)


def _number(text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None


def _range(text: str) -> Range:
    low, _, high = text.partition("-")
    try:
        return Range(low=int(low), high=int(high or low))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of tokens; write 128, or 32-512 for a range"
        ) from None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
