"""A measurement as JSON: everything that the table says, and every request. Times in seconds."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.doubts import doubts
from splitpool_bench.measuring.figures import by_class
from splitpool_bench.measuring.options import ClosedLoop, Goodput, OpenLoop, Options, Replay
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.result import Measured, Result
from splitpool_bench.measuring.served import Agreement
from splitpool_bench.measuring.timeline import backlog_at, backlog_grows
from splitpool_bench.measuring.verdict import compare, verdict

FORMAT = 1


def document(result: Result) -> dict[str, Any]:
    """The whole measurement; `format` changes when a reader would have to."""
    servers = [_server(server) for server in result.servers]
    written = {
        "format": FORMAT,
        "machine": result.about,
        "asked": _asked(result.options),
        "interrupted": result.interrupted,
        "servers": servers,
        "doubts": doubts(result),
    }
    if len(result.servers) > 1:
        found = compare(*(server.points for server in result.servers))
        rows = [asdict(each) | {"differ": each.differ, "said": each.said} for each in found]
        written["comparison"] = {"figures": rows, "verdict": verdict(found)}
    return written


def dump(result: Result) -> str:
    """As text; a figure that does not exist is null."""
    return json.dumps(_finite(document(result)), indent=1) + "\n"


def _asked(options: Options) -> dict[str, Any]:
    load = options.load
    asked = asdict(options)
    asked["mix"] |= {"prompt": str(options.mix.prompt), "output": str(options.mix.output)}
    asked["mix"] |= {
        "other_prompt": str(options.mix.other_prompt),
        "other_output": str(options.mix.other_output),
    }
    match load:
        case OpenLoop():
            asked["load"] = {"loop": "open", "rates": load.rates, "process": load.process}
        case ClosedLoop():
            asked["load"] = {"loop": "closed", "users": load.users}
        case Replay():
            asked["load"] = {"loop": "open", "trace": str(load.file)}
        case Goodput():
            asked["load"] = {"loop": "open", "goodput": asdict(load)}
    return asked


def _server(server: Measured) -> dict[str, Any]:
    return {
        "url": server.url,
        "model": server.model,
        "tokens_counted_by": server.counting,
        "warm_up": {
            "first_ttft": server.warm_up.first_ttft,
            "ttft": [each.ttft for each in server.warm_up.outcomes],
        },
        "points": [_point(point) for point in server.points],
        "goodput": asdict(server.goodput) if server.goodput else None,
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "name": point.name,
        "loop": point.loop,
        "offered_rate": point.rate,
        "seed": point.seed,
        "seconds": point.seconds,
        "requests_per_second": point.requests_per_second,
        "output_tokens_per_second": point.output_tokens_per_second,
        "backlog_at_last_arrival": backlog_at(point.outcomes, point.last_start),
        "backlog_grows": backlog_grows(point.outcomes, point.began, point.last_start),
        "classes": [
            asdict(each) | {"tokens_per_event": each.tokens_per_event}
            for each in by_class(point.outcomes)
        ],
        "generator": asdict(point.generator),
        "served": [_agreement(each) for each in point.agreements],
        "requests": _requests(point.outcomes, point.began),
        "beside": _requests(point.beside, point.began),
    }


def _agreement(each: Agreement) -> dict[str, Any]:
    return asdict(each) | {
        "outside": each.outside,
        "comparable": each.comparable,
        "agrees": each.agrees,
        "said": each.said(),
    }


def _requests(outcomes: Sequence[Outcome], began: float) -> list[dict[str, Any]]:
    return [
        {
            "class": each.latency_class,
            "at": round(each.sent - began, 6),
            "ttft": each.ttft,
            "tpot": each.tpot,
            "e2e": each.e2e,
            "longest_gap": max(each.gaps, default=None),
            "input": each.prompt_tokens,
            "cached": each.cached_tokens,
            "output": each.output_tokens,
            "events": len(each.content_times),
            "failure": each.failure,
        }
        for each in outcomes
    ]


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity; floats to the microsecond."""
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
