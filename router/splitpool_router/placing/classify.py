"""Which latency class a request belongs to: the first wish that counts, clamped by the API key."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CLASS_HEADER = "X-Splitpool-Class"
OBJECTIVE_HEADERS = ("x-llm-d-inference-objective", "x-gateway-inference-objective")


class LatencyClass(StrEnum):
    """The two pools: low time to first token, high throughput."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class UnknownClass(ValueError):
    """The class header names no class: a silent default would put a bulk job on the fast pool."""

    def __init__(self, value: str) -> None:
        allowed = ", ".join(LatencyClass)
        super().__init__(f"{CLASS_HEADER} is {value!r}; allowed are: {allowed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Everything in a request that can name its class."""

    header: str | None
    objective: str | None
    service_tier: object
    stream: bool


SERVICE_TIERS: Mapping[object, LatencyClass] = {
    "flex": LatencyClass.BATCH,
    "priority": LatencyClass.INTERACTIVE,
}


def classify(
    wishes: Wishes, *, objectives: Mapping[str, LatencyClass], default: LatencyClass
) -> LatencyClass:
    """The first of header, objective, service_tier, stream that decides, else the default."""
    if wishes.header is not None:
        return named(wishes.header)
    if wishes.objective is not None and wishes.objective in objectives:
        return objectives[wishes.objective]
    if isinstance(wishes.service_tier, str) and wishes.service_tier in SERVICE_TIERS:
        return SERVICE_TIERS[wishes.service_tier]
    return LatencyClass.INTERACTIVE if wishes.stream else default


def named(value: str) -> LatencyClass:
    """The class of a header's value, in any case and with blanks around it."""
    try:
        return LatencyClass(value.strip().lower())
    except ValueError:
        raise UnknownClass(value) from None


def clamp(cls: LatencyClass, highest: LatencyClass) -> LatencyClass:
    """`cls`, or batch where the key's holder may have no more."""
    return LatencyClass.BATCH if highest is LatencyClass.BATCH else cls
