"""A trace file: a JSON object a line, each a request with its start and its lengths.

    {"at": 0.0, "input": 128, "output": 64, "class": "interactive"}

`at` is in seconds; the first line need not be at 0, and lines need not be in order. `class` may be
left out.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

from splitpool_bench.measuring.planned import Planned

CLASSES = ("interactive", "batch")


class BadTrace(ValueError):
    """A line is no request; the message names it, the field, the value and the remedy."""


def read(lines: Iterable[str], default_class: str) -> list[Planned]:
    """The requests of a trace in order, the first at 0. Raises BadTrace."""
    found = [
        _request(number, line, default_class)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not found:
        raise BadTrace('there is no request; write lines like {"at": 0, "input": 9, "output": 9}')
    first = min(each.at for each in found)
    shifted = [
        Planned(
            at=each.at - first,
            prompt_tokens=each.prompt_tokens,
            output_tokens=each.output_tokens,
            latency_class=each.latency_class,
        )
        for each in found
    ]
    return sorted(shifted, key=lambda each: each.at)


def _request(number: int, line: str, default_class: str) -> Planned:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise BadTrace(f"line {number} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadTrace(f"line {number} is no JSON object; a request is one, with at, input, output")
    unknown = set(fields) - {"at", "input", "output", "class"}
    if unknown:
        raise BadTrace(
            f"line {number}: {min(unknown)!r} is not known; use at, input, output, class"
        )
    latency_class = fields.get("class", default_class)
    if latency_class not in CLASSES:
        raise BadTrace(f"line {number}: class is {latency_class!r}; use {' or '.join(CLASSES)}")
    return Planned(
        at=_at(number, fields),
        prompt_tokens=_tokens(number, fields, "input"),
        output_tokens=_tokens(number, fields, "output"),
        latency_class=latency_class,
    )


def _at(number: int, fields: dict[str, Any]) -> float:
    value = fields.get("at")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadTrace(f"line {number}: at is {value!r}; give the start in seconds")
    return float(value)


def _tokens(number: int, fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadTrace(f"line {number}: {name} is {value!r}; give a number of tokens, 1 or more")
    return value
