"""How many requests were in flight at every moment, and did their backlog grow? Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from splitpool_bench.exchange import Outcome

MOMENTS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """At `at` seconds: requests without a first token, and those that produce tokens."""

    at: float
    waiting: int
    producing: int
    """The batch as clients see it: between the first token and the last byte."""

    @property
    def in_flight(self) -> int:
        """Both."""
        return self.waiting + self.producing


def timeline(outcomes: Sequence[Outcome], began: float, moments: int = MOMENTS) -> list[Moment]:
    """The number in flight at evenly spaced moments from `began` to the last byte."""
    end = max((each.ended for each in outcomes), default=began)
    step = (end - began) / moments
    if step <= 0:
        return []
    return [_moment(outcomes, began, step * number) for number in range(moments + 1)]


def backlog_grows(outcomes: Sequence[Outcome], began: float, last_start: float) -> bool:
    """Whether more requests are in flight in the last third of the arrivals than in the second.

    The number in flight at a server that keeps up varies like a Poisson number: by the root of
    its mean. What counts is a fifth more and two of those.
    """
    third = (last_start - began) / 3
    if third <= 0:
        return False
    second = _mean_in_flight(outcomes, began + third, began + 2 * third)
    last = _mean_in_flight(outcomes, began + 2 * third, last_start)
    return last > 1.2 * second and last > second + 2 * math.sqrt(max(second, 1.0))


def backlog_at(outcomes: Iterable[Outcome], moment: float) -> int:
    """Requests that were sent and had not ended."""
    return sum(each.sent <= moment < each.ended for each in outcomes)


def _mean_in_flight(outcomes: Iterable[Outcome], start: float, stop: float) -> float:
    overlaps = (min(each.ended, stop) - max(each.sent, start) for each in outcomes)
    return sum(overlap for overlap in overlaps if overlap > 0) / (stop - start)


def _moment(outcomes: Iterable[Outcome], began: float, at: float) -> Moment:
    now = began + at
    waiting = producing = 0
    for each in outcomes:
        if each.sent <= now < each.ended:
            first = each.content_times[0] if each.content_times else math.inf
            waiting += now < first
            producing += now >= first
    return Moment(at=at, waiting=waiting, producing=producing)
