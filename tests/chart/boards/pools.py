"""How are the pools? Conditions, requests, throughput, latencies."""

from chart.boards.grafana import Dashboard, Panel
from chart.boards.queries import (
    BY_CLASS,
    OF_CLASS,
    POOL,
    quantiles,
    rate,
    total,
)

WITHIN = Panel(
    title="Requests within the TTFT target",
    text="Of all streamed requests of a class with a target; a refused one is a miss.",
    queries=(
        (
            "1 - "
            + rate("splitpool_router_ttft_target_total", BY_CLASS, 'within="false"')
            + " / "
            + rate("splitpool_router_ttft_target_total", BY_CLASS),
            OF_CLASS,
        ),
    ),
    unit="percentunit",
)

POOLS = Dashboard(
    name="pools",
    title="splitpool: pools",
    panels=(
        Panel(
            title="Conditions that are not as they should be",
            text="Those that should be True and are not, and Stalled; by reason.",
            queries=tuple(
                (
                    f"splitpool_operator_pool_condition{{{POOL},{types}}} {wrong}",
                    "{{pool}} {{type}}: {{reason}}",
                )
                for types, wrong in (
                    ('type=~"Ready|QuotaEnforced|.*Available"', "< 1"),
                    ('type="Stalled"', "== 1"),
                )
            ),
        ),
        WITHIN,
        Panel(
            title="Workers that take requests",
            text="As the routers see them.",
            queries=(
                (
                    "sum by (namespace, pool) (max by (namespace, pool, worker) "
                    f"(splitpool_router_worker_up{{{POOL}}}))",
                    "{{pool}}",
                ),
            ),
        ),
        Panel(
            title="Requests by outcome",
            text="A second, refusals too.",
            queries=(
                (
                    rate("splitpool_router_requests_total", f"{BY_CLASS}, code, reason"),
                    f"{OF_CLASS} {{{{code}}}} {{{{reason}}}}",
                ),
            ),
            unit="reqps",
            stacked=True,
        ),
        Panel(
            title="Requests that wait",
            text="In the routers' queues.",
            queries=((total("splitpool_router_queue_requests", BY_CLASS), OF_CLASS),),
        ),
        Panel(
            title="Requests that run",
            text="That hold a worker.",
            queries=((total("splitpool_router_running_requests", BY_CLASS), OF_CLASS),),
        ),
        Panel(
            title="Changes of replicas",
            text="By autoscaling and its reason, an hour.",
            queries=(
                (
                    "3600 * "
                    + rate("splitpool_operator_scale_decisions_total", f"{BY_CLASS}, reason"),
                    f"{OF_CLASS} {{{{reason}}}}",
                ),
            ),
        ),
        Panel(
            title="Tokens that wait",
            text="In the routers' queues: what the batch class has before it.",
            queries=((total("splitpool_router_queue_tokens", BY_CLASS), OF_CLASS),),
        ),
        Panel(
            title="Streams",
            text="That are being written.",
            queries=((total("splitpool_router_active_streams", BY_CLASS), OF_CLASS),),
        ),
        Panel(
            title="Output tokens a second",
            text="Throughput of the workers.",
            queries=(
                (rate("splitpool_worker_tokens_total", BY_CLASS, 'kind="generation"'), OF_CLASS),
            ),
        ),
        Panel(
            title="Prompt tokens a second",
            text="Of requests whose first token has come; cached: found in the prefix cache.",
            queries=(
                (rate("splitpool_worker_tokens_total", BY_CLASS, 'kind="prompt"'), OF_CLASS),
                (
                    rate("splitpool_worker_tokens_total", BY_CLASS, 'kind="cached"'),
                    f"{OF_CLASS} cached",
                ),
            ),
        ),
        Panel(
            title="Whole requests",
            text="From acceptance at the router to the last byte.",
            queries=quantiles("splitpool_router_e2e_seconds"),
            unit="s",
        ),
        Panel(
            title="Gaps between tokens",
            text="Every gap, as the workers produce them.",
            queries=quantiles("splitpool_worker_itl_seconds"),
            unit="s",
        ),
        Panel(
            title="Time per output token",
            text="Mean gap of each finished request.",
            queries=quantiles("splitpool_worker_tpot_seconds"),
            unit="s",
        ),
    ),
)
