"""Which questions does Prometheus answer? One per figure, each about all pools at once."""

from splitpool_operator.autoscaling.interactive import ALERT
from splitpool_operator.autoscaling.state import Pace

OWNER = ("namespace", "pool", "class")
# Between two looks at a sum whose peak is asked for.
_STEP_SECONDS = 15

_BY = f"by ({', '.join(OWNER)})"
_FIRED = f'ALERTS{{alertname="{ALERT}",alertstate="firing"}}'
_TARGET = "splitpool_router_ttft_target_total"
_WAITING = f"sum {_BY} (splitpool_router_queue_requests)"
_RUNNING = f"sum {_BY} (splitpool_router_running_requests)"
_BACKLOG = f"sum {_BY} (splitpool_router_queue_tokens + splitpool_router_running_tokens)"


def queries(pace: Pace) -> dict[str, str]:
    """By the names of `Signals`, in PromQL; `observed` counts steps of the quiet window."""
    window, quiet = f"[{pace.window:.0f}s]", f"[{pace.quiet:.0f}s]"
    steps = f"[{pace.quiet:.0f}s:{step_seconds(pace)}s]"
    rate = f"sum {_BY} (rate({_TARGET}{window}))"
    # A Prometheus that was killed shows its last samples for minutes after it has come back.
    firing = f"{_FIRED} unless (time() - timestamp({_FIRED}) > {pace.stale:.0f})"
    return {
        "age": f"time() - min {_BY} (timestamp(splitpool_router_queue_requests))",
        "observed": f"count_over_time({_WAITING}{steps})",
        "firing": f"max {_BY} ({firing})",
        "fired": f"max {_BY} (max_over_time({_FIRED}{quiet}))",
        "rate": rate,
        "late": f'sum {_BY} (rate({_TARGET}{{within="false"}}{window}))',
        "peak_rate": f"max_over_time({rate}{steps})",
        "refused": f'sum {_BY} (rate(splitpool_router_requests_total{{code="429"}}{window}))',
        "ttft": _p99("ttft", window, '{stream="true"}'),
        "queue": _p99("ttft_queue", window),
        "service": _p99("ttft_service", window),
        "waiting": _WAITING,
        "peak_waiting": f"max_over_time({_WAITING}{steps})",
        "running": _RUNNING,
        "peak_running": f"max_over_time({_RUNNING}{steps})",
        "backlog": _BACKLOG,
        "peak_backlog": f"max_over_time({_BACKLOG}{steps})",
        "throughput": f"sum {_BY} (rate(splitpool_worker_tokens_total"
        f'{{kind=~"prompt|generation"}}{window}))',
    }


def step_seconds(pace: Pace) -> int:
    """Between two looks at a sum whose peak is asked for; at least eight fit the quiet window."""
    return max(1, min(_STEP_SECONDS, int(pace.quiet / 8)))


def _p99(name: str, window: str, labels: str = "") -> str:
    buckets = f"splitpool_router_{name}_seconds_bucket{labels}{window}"
    return f"histogram_quantile(0.99, sum by (le, {', '.join(OWNER)}) (rate({buckets})))"
