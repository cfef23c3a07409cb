"""Which requests does each workload send, and when? Seeded: every server gets the same ones. Pure.

W1 and W3 ask one after the other; W2 sends all at once; W4 and W5 are minutes of Poisson arrivals,
each minute with another seed. Words are drawn anew for every measurement, so no cache knows them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from splitpool_bench.arrivals import poisson
from splitpool_bench.measuring.planned import Mix, Planned, Range

Workload = Literal["W1", "W2", "W3", "W4", "W5"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)
OFFLINE: tuple[Workload, ...] = ("W1", "W2", "W3")
ONLINE: tuple[Workload, ...] = ("W4", "W5")

MINUTE = 60.0
BATCH_JOBS = 8
BATCH_AT = 10.0
SHARE_OF_PEER = 0.6
"""Of the best peer's W2 rate, at which W4 and W5 arrive."""
_W2_REQUESTS = 64
_W2_SEED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """Requests of one length, one after the other."""

    prompt_tokens: int
    output_tokens: int
    requests: int


SERIAL: dict[Workload, Serial] = {
    "W1": Serial(prompt_tokens=128, output_tokens=128, requests=4),
    "W3": Serial(prompt_tokens=1800, output_tokens=32, requests=4),
}
TITLES: dict[Workload, str] = {
    "W1": "one stream, prompt 128, output 128",
    "W2": "64 requests at once, prompts 32-512, outputs 16-256",
    "W3": "one stream, prompt 1,800, output 32",
    "W4": "Poisson arrivals of W2's mix at 60 % of the best peer's W2 rate, minutes of 60 s",
    "W5": "W4 and 8 batch jobs (prompt 1,000, output 256) at 10 s of every minute",
}


def mix(workload: Workload) -> Mix:
    """The lengths of a workload's requests; batch jobs are the other class."""
    serial = SERIAL.get(workload)
    one = serial or Serial(prompt_tokens=0, output_tokens=0, requests=0)
    return Mix(
        latency_class="interactive",
        prompt=Range(low=one.prompt_tokens, high=one.prompt_tokens)
        if serial
        else Range(low=32, high=512),
        output=Range(low=one.output_tokens, high=one.output_tokens)
        if serial
        else Range(low=16, high=256),
        other_prompt=Range(low=1000, high=1000),
        other_output=Range(low=256, high=256),
    )


def planned(workload: Workload, repeat: int, rate: float) -> list[Planned]:
    """The requests of one repeat of W2, W4 or W5 in order of their start.

    rate: of W4 and W5, requests a second. W2 is the same set in every repeat; W4 and W5 have
    another minute in each, and W5 the same as W4.
    """
    if workload == "W2":
        return mix("W2").planned([0.0] * _W2_REQUESTS, _W2_SEED)
    offsets = _minute(rate, 1000 + repeat)
    short = mix(workload).planned(offsets, 1000 + repeat)
    if workload == "W4":
        return short
    jobs = [
        Planned(at=BATCH_AT, prompt_tokens=1000, output_tokens=256, latency_class="batch")
        for _ in range(BATCH_JOBS)
    ]
    return sorted([*short, *jobs], key=lambda each: each.at)


def minutes(rate: float, requests: int) -> int:
    """How many minutes hold so many short requests, as they are drawn."""
    found = count = 0
    while count < requests:
        count += len(_minute(rate, 1000 + found))
        found += 1
    return found


def trace(requests: Sequence[Planned]) -> str:
    """The same as a file for `splitpool bench --trace`."""
    return "".join(
        json.dumps(
            {
                "at": round(each.at, 6),
                "input": each.prompt_tokens,
                "output": each.output_tokens,
                "class": each.latency_class,
            }
        )
        + "\n"
        for each in requests
    )


def _minute(rate: float, seed: int) -> list[float]:
    """Poisson starts within a minute; the first arrival's wait counts as well."""
    most = max(16, round(rate * MINUTE * 3))
    return [at for at in poisson(rate, most, seed) if at < MINUTE]
