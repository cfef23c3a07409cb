"""Which servers are compared, and how is each started?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from peers.place import POOLS, ROOT, Place, own_program
from peers.workloads import OFFLINE, ONLINE, WORKLOADS, Workload

Precision = Literal["bf16", "int8"]
CORES = 2
SEQUENCES = 64
"""That run together, where a server can be told."""
_LLAMA_SLOTS = 16  # 64 were slower; each holds the longest request
_LLAMA_CONTEXT = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A command line, what its environment adds, and the path that answers 200 once it is ready."""

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    health: str = "/health"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server under a name; `needs` are files that must be there, `install` makes them."""

    name: str
    title: str
    precision: Precision
    start: Start
    needs: Sequence[Path] = ()
    install: str | None = None
    """Name of the peer that `make peers` installs; None: this project itself."""
    workloads: Sequence[Workload] = WORKLOADS
    memory: int
    """GiB that it takes, about."""
    note: str = ""

    @property
    def own(self) -> bool:
        """Whether it is splitpool."""
        return self.install is None

    @property
    def missing(self) -> str | None:
        """What is not installed, and the remedy; None where it can start."""
        absent = [path for path in self.needs if not path.exists()]
        if not absent:
            return None
        return f"{self.title}: {absent[0].name} is not there; make peers PEERS={self.install}"


def servers(place: Place, port: str = "PORT") -> list[Server]:
    """All of them, to be started on a port."""
    return [
        _splitpool("splitpool-bf16", "bf16-shared", port, "Shared: one worker on all cores"),
        _splitpool("splitpool-bf16-plain", "bf16-plain", port, "Shared, no guessed tokens"),
        _splitpool("splitpool-split", "bf16-split", port, "Split: a worker for each class"),
        _splitpool("splitpool-int8", "int8-shared", port, "Shared: one worker on all cores"),
        _splitpool("splitpool-int8-plain", "int8-plain", port, "Shared, no guessed tokens"),
        _vllm(place, port),
        _llama(place, port, "BF16", "bf16"),
        _llama(place, port, "Q8_0", "int8"),
        _openvino(place, port),
        _transformers(place, port),
    ]


def pool(name: str) -> Path:
    """A pool file of ours."""
    return POOLS / f"{name}.yaml"


_OWN_WORKLOADS: Mapping[str, Sequence[Workload]] = {
    "bf16-split": ONLINE,
    "int8-shared": OFFLINE,
    "bf16-plain": ("W1", "W2"),
    "int8-plain": ("W1", "W2"),
}
"""Of pool files that are not measured under all."""


def _splitpool(name: str, file: str, port: str, note: str) -> Server:
    precision: Precision = "int8" if file.startswith("int8") else "bf16"
    return Server(
        name=name,
        title=f"splitpool {precision}, {note.partition(':')[0]}",
        precision=precision,
        start=Start(
            command=(str(own_program("splitpool")), "up", str(pool(file)), "--port", port),
            health="/internal/pools",
        ),
        workloads=_OWN_WORKLOADS.get(file, WORKLOADS),
        memory=5 if file == "bf16-split" else 4,
        note=f"bench/pools/{file}.yaml: {note}",
    )


def _vllm(place: Place, port: str) -> Server:
    program = place.program("vllm", "vllm")
    preloaded = (
        Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
        place.venv("vllm") / "lib" / "libiomp5.so",
    )
    return Server(
        name="vllm",
        title="vLLM bf16",
        precision="bf16",
        start=Start(
            command=(
                *(str(program), "serve", str(place.safetensors), "--served-model-name", "m"),
                *("--host", "127.0.0.1", "--port", port, "--dtype", "bfloat16"),
                *("--max-model-len", "4096", "--max-num-seqs", str(SEQUENCES)),
            ),
            env={
                "VLLM_TARGET_DEVICE": "cpu",
                "VLLM_CPU_KVCACHE_SPACE": "4",
                "VLLM_CPU_OMP_THREADS_BIND": f"0-{CORES - 1}",
                "VLLM_NO_USAGE_STATS": "1",
                "DO_NOT_TRACK": "1",
                "HF_HUB_OFFLINE": "1",
                "VLLM_CACHE_ROOT": str(place.root / "vllm-cache"),
                "LD_PRELOAD": ":".join(str(path) for path in preloaded if path.exists()),
            },
        ),
        needs=(program, place.safetensors / "model.safetensors"),
        install="vllm",
        memory=7,
        note="its defaults (chunked prefill, prefix cache, first come first served), 64 sequences",
    )


def _llama(place: Place, port: str, kind: str, precision: Precision) -> Server:
    program = place.llama("llama-server")
    return Server(
        name=f"llamacpp-{kind.lower()}",
        title=f"llama.cpp {kind}",
        precision=precision,
        start=Start(
            command=(
                *(str(program), "-m", str(place.gguf(kind)), "--host", "127.0.0.1"),
                *("--port", port, "--alias", "m", "-t", str(CORES), "-tb", str(CORES)),
                *("-np", str(_LLAMA_SLOTS), "-c", str(_LLAMA_SLOTS * _LLAMA_CONTEXT)),
                *("--no-cache-prompt", "--cache-ram", "0", "--no-webui"),
            ),
        ),
        needs=(program, place.gguf(kind)),
        install="llamacpp",
        workloads=OFFLINE,
        memory=2,
        note=f"{_LLAMA_SLOTS} slots",
    )


def _openvino(place: Place, port: str) -> Server:
    return Server(
        name="openvino-int8",
        title="OpenVINO GenAI int8",
        precision="int8",
        start=_shim(
            *(place, "openvino", str(place.openvino), port, str(CORES), str(SEQUENCES)),
        ),
        needs=(place.program("openvino", "python"), place.openvino / "openvino_model.xml"),
        install="openvino",
        workloads=OFFLINE,
        memory=6,
        note="ContinuousBatchingPipeline, 2,048 tokens a step, no prefix cache; our HTTP in front",
    )


def _transformers(place: Place, port: str) -> Server:
    return Server(
        name="transformers",
        title="transformers bf16",
        precision="bf16",
        start=_shim(place, "transformers", str(place.safetensors), port, str(CORES)),
        needs=(place.program("transformers", "python"), place.safetensors / "model.safetensors"),
        install="transformers",
        workloads=("W1", "W3"),
        memory=3,
        note="generate, one request at a time; our HTTP in front",
    )


def _shim(place: Place, peer: str, *arguments: str) -> Start:
    """An engine without a server, in its own environment."""
    return Start(
        command=(str(place.program(peer, "python")), "-m", f"peers.{peer}_server", *arguments),
        env={"PYTHONPATH": str(ROOT / "bench"), "HF_HUB_OFFLINE": "1"},
    )
