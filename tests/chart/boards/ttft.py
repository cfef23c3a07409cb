"""Where does the time to the first token go?"""

from chart.boards.grafana import Dashboard, Panel
from chart.boards.pools import WITHIN
from chart.boards.queries import (
    BY_CLASS,
    OF_CLASS,
    quantile,
    quantiles,
    rate,
)

_MEAN_PARTS = tuple(
    (
        rate(f"splitpool_router_ttft_{part}_seconds_sum", BY_CLASS)
        + " / "
        + rate("splitpool_router_ttft_seconds_count", BY_CLASS, 'stream="true"'),
        f"{OF_CLASS} {part}",
    )
    for part in ("queue", "prefill")
)
TTFT = Dashboard(
    name="ttft",
    title="splitpool: time to first token",
    panels=(
        WITHIN,
        Panel(
            title="TTFT (served)",
            text="From acceptance at the router to the first content written; streams only.",
            queries=quantiles("splitpool_router_ttft_seconds", 'stream="true"'),
            unit="s",
        ),
        Panel(
            title="TTFT (service)",
            text="Without waiting: the engine's own capability.",
            queries=quantiles("splitpool_router_ttft_service_seconds"),
            unit="s",
        ),
        Panel(
            title="Where the time goes",
            text="Means: waiting, prefill, and everything around the engine by part.",
            queries=(
                *_MEAN_PARTS,
                (
                    rate("splitpool_router_ttft_overhead_seconds_sum", f"{BY_CLASS}, part")
                    + f" / on ({BY_CLASS}) group_left "
                    + rate("splitpool_router_ttft_seconds_count", BY_CLASS, 'stream="true"'),
                    f"{OF_CLASS} {{{{part}}}}",
                ),
            ),
            unit="s",
            stacked=True,
        ),
        Panel(
            title="Waiting",
            text="In the router's queue and in the engine's.",
            queries=quantiles("splitpool_router_ttft_queue_seconds"),
            unit="s",
        ),
        Panel(
            title="Prefill",
            text="First scheduled to first token sampled.",
            queries=quantiles("splitpool_router_ttft_prefill_seconds"),
            unit="s",
        ),
        Panel(
            title="TTFT p99 by length of the prompt",
            text="Tokens of the prompt: up to 128, 512, 2048, 8192, more.",
            queries=(
                (
                    quantile(
                        0.99,
                        "splitpool_router_ttft_seconds",
                        f"{BY_CLASS}, input",
                        'stream="true"',
                    ),
                    f"{OF_CLASS} {{{{input}}}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Share of waiting",
            text="Above the chart's partShare more workers help; below it they do not.",
            queries=(
                (
                    rate("splitpool_router_ttft_queue_seconds_sum", BY_CLASS)
                    + " / "
                    + rate("splitpool_router_ttft_seconds_sum", BY_CLASS, 'stream="true"'),
                    OF_CLASS,
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Unexplained",
            text="What no part accounts for; below 5 % of TTFT.",
            queries=quantiles("splitpool_router_ttft_unexplained_seconds"),
            unit="s",
        ),
    ),
)
