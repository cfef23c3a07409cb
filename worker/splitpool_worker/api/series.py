"""The Prometheus series of a worker: its own, and those that vLLM's dashboards read."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

# TTFT and its parts share these edges everywhere; gaps between tokens start lower.
_LOW = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
EDGES = (*_LOW, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
TOKEN_EDGES = (0.001, 0.002, 0.003, *EDGES)

ITL_TEXT = "Gap between two tokens of a request"
_BOUNDS = [*(str(edge) for edge in TOKEN_EDGES), "+Inf"]

_WORKER = ("pool", "namespace", "model")
_CLASS = (*_WORKER, "class")


class Gaps(Collector):
    """Gaps between tokens by class, under both names.

    There is one for every token, and only the event loop writes them: without locks and label
    look-ups a gap costs a tenth of what a Histogram takes.
    """

    def __init__(self, worker: Mapping[str, str], classes: Iterable[str]) -> None:
        self._worker = worker
        self._counts = {cls: [0] * len(_BOUNDS) for cls in classes}
        self._sums = dict.fromkeys(self._counts, 0.0)

    def observe(self, cls: str, seconds: float) -> None:
        """One gap."""
        self._counts[cls][bisect_left(TOKEN_EDGES, seconds)] += 1
        self._sums[cls] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Both series, for the registry."""
        own = HistogramMetricFamily("splitpool_worker_itl_seconds", ITL_TEXT, labels=_CLASS)
        for cls, counts in self._counts.items():
            labels = [*(self._worker[name] for name in _WORKER), cls]
            own.add_metric(labels, _cumulative(counts), self._sums[cls])
        yield own
        vllm = HistogramMetricFamily(
            "vllm:inter_token_latency_seconds", ITL_TEXT, labels=("model_name",)
        )
        total = [sum(column) for column in zip(*self._counts.values(), strict=True)]
        vllm.add_metric([self._worker["model"]], _cumulative(total), sum(self._sums.values()))
        yield vllm


def _cumulative(counts: list[int]) -> list[tuple[str, float]]:
    return list(zip(_BOUNDS, map(float, accumulate(counts)), strict=True))


class OwnSeries:
    """`splitpool_worker_*`, labelled by pool, namespace, model and mostly by class."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, *labels: str) -> Histogram:
            full = f"splitpool_worker_{name}"
            return Histogram(full, text, labels or _CLASS, registry=registry, buckets=TOKEN_EDGES)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"splitpool_worker_{name}", text, labels or _CLASS, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"splitpool_worker_{name}", text, (*_CLASS, *labels), registry=registry)

        self.tpot = histogram("tpot_seconds", "Mean gap between the tokens of a finished request")
        self.step = histogram("step_seconds", "One engine step, by part", *_WORKER, "part")
        self.tokens = counter("tokens", "Tokens, by kind: prompt, cached, generation", "kind")
        self.drafts = counter("draft_tokens", "Guessed tokens, by outcome", "outcome")
        self.utilisation = gauge(
            "batch_utilisation_ratio", "Sequences with a token / (slots x steps)"
        )
        self.replay = gauge("replay_buffer_bytes", "Events kept for resuming", *_WORKER)
        self.vram_quota = gauge("vram_quota_bytes", "VRAM quota")
        self.vram_limit = gauge(
            "vram_limit_bytes", "Fence that the worker sees", *_WORKER, "enforcement"
        )
        self.vram_weights = gauge("vram_weights_bytes", "VRAM of the weights")
        self.vram_kv = gauge("vram_kv_bytes", "VRAM set aside for KV")
        self.vram_used = gauge("vram_used_bytes", "VRAM in use")
        self.vram_violations = counter("vram_violations", "Times that the quota was exceeded")
        self.mbu = gauge(
            "step_mbu_ratio", "Least possible / real time of the last decode step", *_WORKER
        )


class VllmSeries:
    """`vllm:*` under vLLM's names and meanings, labelled by model name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, edges: tuple[float, ...] = EDGES) -> Histogram:
            full = f"vllm:{name}"
            return Histogram(full, text, ("model_name",), registry=registry, buckets=edges)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"vllm:{name}", text, ("model_name", *labels), registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"vllm:{name}", text, ("model_name", *labels), registry=registry)

        self.waiting = gauge("num_requests_waiting", "Requests waiting in the engine")
        self.running = gauge("num_requests_running", "Requests in the running batch")
        self.kv_usage = gauge("kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1")
        self.cache_config = gauge(
            "cache_config_info", "Shape of the KV cache", "block_size", "num_gpu_blocks"
        )
        self.ttft = histogram("time_to_first_token_seconds", "Accepted to first token")
        self.e2e = histogram("e2e_request_latency_seconds", "Accepted to the last token")
        self.queue = histogram("request_queue_time_seconds", "Submitted to first scheduled")
        self.prefill = histogram("request_prefill_time_seconds", "Scheduled to first token")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens")
        self.generation_tokens = counter("generation_tokens", "Generated tokens")
        self.success = counter("request_success", "Requests by how they ended", "finished_reason")
        self.preemptions = counter("num_preemptions", "Preemptions")
        self.drafts = counter("spec_decode_num_draft_tokens", "Guessed tokens computed")
        self.accepted = counter("spec_decode_num_accepted_tokens", "Guessed tokens that came true")
        self.prefix_queries = counter("prefix_cache_queries", "Prompt tokens looked up")
        self.prefix_hits = counter("prefix_cache_hits", "Prompt tokens found")
