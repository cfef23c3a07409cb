"""Where do peers, their weights and the results lie? In a cache folder, outside the checkout."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
POOLS = ROOT / "bench" / "pools"


def cache() -> Path:
    """`$XDG_CACHE_HOME/splitpool/peers`; ~/.cache where that is not set."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "splitpool" / "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folders of an installation of peers."""

    root: Path

    @property
    def weights(self) -> Path:
        """The one model in every form that a peer reads."""
        return self.root / "weights"

    @property
    def safetensors(self) -> Path:
        """The folder of the bfloat16 weights with the tokenizer."""
        return self.weights / "bf16"

    def gguf(self, kind: str) -> Path:
        """llama.cpp's file of one type, such as BF16."""
        return self.weights / f"{kind}.gguf"

    @property
    def openvino(self) -> Path:
        """The folder of OpenVINO's int8 model."""
        return self.weights / "openvino-int8"

    def venv(self, name: str) -> Path:
        """The environment of one peer."""
        return self.root / name

    def program(self, venv: str, name: str) -> Path:
        """A program of a peer's environment."""
        return self.venv(venv) / "bin" / name

    @property
    def llamacpp(self) -> Path:
        """Sources and build of llama.cpp."""
        return self.root / "llamacpp"

    def llama(self, name: str) -> Path:
        """A program of llama.cpp's build."""
        return self.llamacpp / "build" / "bin" / name


def own_program(name: str) -> Path:
    """A program of this project's own environment."""
    return Path(sys.executable).with_name(name)
