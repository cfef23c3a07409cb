"""Do the workers keep to their quotas, and what do they spend them on?"""

from chart.boards.grafana import Dashboard, Panel
from chart.boards.queries import (
    BY_CLASS,
    CLASS,
    EVERY,
    OF_CLASS,
    POOL,
    rate,
    total,
)

_BY_POD = f"{BY_CLASS}, instance"
_OF_POD = f"{OF_CLASS} {{{{instance}}}}"
VRAM = Dashboard(
    name="vram",
    title="splitpool: VRAM",
    panels=(
        Panel(
            title="In use and quota",
            text="By worker.",
            queries=(
                (total("splitpool_worker_vram_used_bytes", _BY_POD), f"{_OF_POD} in use"),
                (total("splitpool_worker_vram_quota_bytes", _BY_POD), f"{_OF_POD} quota"),
            ),
            unit="bytes",
        ),
        Panel(
            title="What the quota is spent on",
            text="Weights and the KV cache; the rest is workspace and the context of the GPU.",
            queries=(
                (total("splitpool_worker_vram_weights_bytes", BY_CLASS), f"{OF_CLASS} weights"),
                (total("splitpool_worker_vram_kv_bytes", BY_CLASS), f"{OF_CLASS} KV"),
            ),
            unit="bytes",
            stacked=True,
        ),
        Panel(
            title="Fence that a worker sees",
            text="By what holds it; infinite without one.",
            queries=(
                (
                    f"splitpool_worker_vram_limit_bytes{{{POOL}}} < Inf",
                    "{{pool}} {{instance}} {{enforcement}}",
                ),
            ),
            unit="bytes",
        ),
        Panel(
            title="Times over the quota",
            text="Any is an alarm.",
            queries=(
                (
                    "sum by (namespace, pool, class) "
                    f"(increase(splitpool_worker_vram_violations_total{{{CLASS}}}{EVERY}))",
                    OF_CLASS,
                ),
            ),
        ),
        Panel(
            title="KV cache in use",
            text="Share of all blocks of a worker.",
            queries=((f"vllm:kv_cache_usage_perc{{{POOL}}}", "{{pool}} {{instance}}"),),
            unit="percentunit",
        ),
        Panel(
            title="Prompt tokens out of the prefix cache",
            text="Of those that were looked up.",
            queries=(
                (
                    rate("vllm:prefix_cache_hits_total", "namespace, pool", selector=POOL)
                    + " / "
                    + rate("vllm:prefix_cache_queries_total", "namespace, pool", selector=POOL),
                    "{{pool}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Preemptions a second",
            text="Sequences that lost their KV cache to others.",
            queries=(
                (rate("vllm:num_preemptions_total", "namespace, pool", selector=POOL), "{{pool}}"),
            ),
        ),
        Panel(
            title="Events kept for resuming",
            text="Host memory of the workers.",
            queries=(
                (
                    total("splitpool_worker_replay_buffer_bytes", "namespace, pool", selector=POOL),
                    "{{pool}}",
                ),
            ),
            unit="bytes",
        ),
    ),
)
