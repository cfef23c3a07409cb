"""What do Prometheus' answers say of each class of each pool? Vectors in, signals out."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from splitpool_operator.autoscaling.queries import OWNER, step_seconds
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Pace

# Namespace, pool and class.
Owner = tuple[str, str, str]
Vector = Sequence[Mapping[str, Any]]


class Unreadable(Exception):
    """An answer is no vector of samples."""


def read(answers: Mapping[str, Vector], pace: Pace) -> dict[Owner, Signals]:
    """The signals of every class that routers tell of, by the answers to `queries`.

    A counter that nothing has counted yet is 0; what is no number stays none, so that the law
    holds. Raises Unreadable.
    """
    values = {name: _by_owner(vector) for name, vector in answers.items()}
    known = [*(values[name] for name in ("age", "observed", "waiting", "running", "backlog"))]
    owners = set(known[0]).intersection(*known[1:])
    return {owner: _signals(owner, values, step_seconds(pace)) for owner in owners}


def _signals(owner: Owner, values: Mapping[str, Mapping[Owner, float]], step: int) -> Signals:
    def count(name: str) -> float:
        return values[name].get(owner, 0.0)

    def quantile(name: str) -> float | None:
        """Without any sample it is not a number."""
        value = values[name].get(owner, math.nan)
        return None if math.isnan(value) else value

    return Signals(
        age=count("age"),
        observed=count("observed") * step,
        firing=count("firing") > 0,
        fired=count("fired") > 0,
        rate=count("rate"),
        within=count("rate") - count("late"),
        peak_rate=count("peak_rate"),
        refused=count("refused"),
        ttft=quantile("ttft"),
        queue=quantile("queue"),
        service=quantile("service"),
        waiting=count("waiting"),
        peak_waiting=count("peak_waiting"),
        running=count("running"),
        peak_running=count("peak_running"),
        backlog=count("backlog"),
        peak_backlog=count("peak_backlog"),
        throughput=count("throughput"),
    )


def _by_owner(vector: Vector) -> dict[Owner, float]:
    try:
        return {
            _owner(sample["metric"]): float(sample["value"][1])
            for sample in vector
            if all(label in sample["metric"] for label in OWNER)
        }
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _owner(labels: Mapping[str, str]) -> Owner:
    namespace, pool, cls = (str(labels[label]) for label in OWNER)
    return namespace, pool, cls
