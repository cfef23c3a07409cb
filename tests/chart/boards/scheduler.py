"""What do engines, routers and the operator do all day?"""

from chart.boards.grafana import Dashboard, Panel
from chart.boards.queries import (
    BY_CLASS,
    CLASS,
    EVERY,
    OF_CLASS,
    POOL,
    mean,
    quantile,
    rate,
    total,
)

SCHEDULER = Dashboard(
    name="scheduler",
    title="splitpool: scheduler",
    panels=(
        Panel(
            title="Running and waiting in the engines",
            text="Requests.",
            queries=(
                (
                    total("vllm:num_requests_running", "namespace, pool", selector=POOL),
                    "{{pool}} running",
                ),
                (
                    total("vllm:num_requests_waiting", "namespace, pool", selector=POOL),
                    "{{pool}} waiting",
                ),
            ),
        ),
        Panel(
            title="How full the batches are",
            text="Sequences with a token over slots and steps.",
            queries=(
                (
                    f"avg by ({BY_CLASS}) (splitpool_worker_batch_utilisation_ratio{{{CLASS}}})",
                    OF_CLASS,
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Memory bandwidth of decode steps",
            text="Least possible over real time of the last one without prefill.",
            queries=((f"splitpool_worker_step_mbu_ratio{{{POOL}}}", "{{pool}} {{instance}}"),),
            unit="percentunit",
        ),
        Panel(
            title="A step by part",
            text="Means.",
            queries=(
                (
                    mean("splitpool_worker_step_seconds", "namespace, pool, part", selector=POOL),
                    "{{pool}} {{part}}",
                ),
            ),
            unit="s",
            stacked=True,
        ),
        Panel(
            title="A step by part, p99",
            text="Parts do not reach their quantiles together.",
            queries=(
                (
                    quantile(
                        0.99,
                        "splitpool_worker_step_seconds",
                        "namespace, pool, part",
                        selector=POOL,
                    ),
                    "{{pool}} {{part}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Waiting in the engine, p99",
            text="Submitted to first scheduled.",
            queries=(
                (
                    quantile(
                        0.99,
                        "vllm:request_queue_time_seconds",
                        "namespace, pool",
                        selector=POOL,
                    ),
                    "{{pool}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Finished by reason",
            text="Requests a second.",
            queries=(
                (
                    rate(
                        "vllm:request_success_total",
                        "namespace, pool, finished_reason",
                        selector=POOL,
                    ),
                    "{{pool}} {{finished_reason}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            title="Streams read again",
            text="By result, a second.",
            queries=(
                (
                    f"sum by (result) (rate(splitpool_router_stream_resumes_total{EVERY}))",
                    "{{result}}",
                ),
            ),
        ),
        Panel(
            title="Age of what the routers know",
            text="Since the source of pools and workers was last heard of.",
            queries=(("max(splitpool_router_discovery_age_seconds)", "oldest"),),
            unit="s",
        ),
        Panel(
            title="The operator's looks at pools",
            text="A second, by what became of them.",
            queries=(
                (
                    f"sum by (result) (rate(splitpool_operator_reconcile_total{EVERY}))",
                    "{{result}}",
                ),
            ),
        ),
        Panel(
            title="A look at a pool, p99",
            text="Its duration.",
            queries=(
                (
                    "histogram_quantile(0.99, sum by (le) "
                    f"(rate(splitpool_operator_reconcile_seconds_bucket{EVERY})))",
                    "p99",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Writes of the operator",
            text="A second; none where nothing changes.",
            queries=(
                (
                    f"sum by (verb, resource) (rate(splitpool_operator_api_writes_total{EVERY}))",
                    "{{verb}} {{resource}}",
                ),
            ),
        ),
    ),
)
