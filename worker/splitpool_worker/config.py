"""The worker's command line, parsed once into one frozen object."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from splitpool_quantity.quantity import QuantityError, to_bytes
from splitpool_worker.checkpoint.footprint import QUANTIZATIONS
from splitpool_worker.schedule.sequence import LatencyClass


class ConfigError(Exception):
    """Arguments that cannot be; the message names flag, value, limit and remedy."""


class ResumeMode(StrEnum):
    ON_REQUEST = "OnRequest"
    ALWAYS = "Always"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassConfig:
    """What one latency class of this worker may use."""

    cls: LatencyClass
    vram_bytes: int
    max_batch: int
    max_wait_s: float
    token_budget: int
    prefill_chunk: int
    max_length_ratio: float
    prefix_cache: bool
    stream: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Everything a worker is told. With two classes it is a Shared one, interactive first."""

    pool: str
    namespace: str
    name: str
    model_name: str
    model: str
    dtype: str
    quantization: str
    max_model_len: int | None
    device: str
    host: str
    port: int
    threads: int
    max_step_s: float
    draft_tokens: int
    resume_mode: ResumeMode
    resume_window_s: float
    resume_buffer_bytes: int
    drain_s: float
    block_size: int
    ops: str
    step_log: str | None
    static: bool
    class_priority: bool
    classes: tuple[ClassConfig, ...]
    host_memory: int
    internal_token: str | None
    node_name: str | None

    def of(self, cls: LatencyClass) -> ClassConfig | None:
        """The class's part, if this worker serves it."""
        return next((part for part in self.classes if part.cls is cls), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Defaults:
    max_batch: int
    max_wait_ms: float
    token_budget: int
    prefill_chunk: int
    stream: bool


_DEFAULTS = {
    (LatencyClass.INTERACTIVE, "cpu"): _Defaults(
        max_batch=8, max_wait_ms=30, token_budget=256, prefill_chunk=128, stream=True
    ),
    (LatencyClass.INTERACTIVE, "cuda"): _Defaults(
        max_batch=8, max_wait_ms=30, token_budget=2048, prefill_chunk=512, stream=True
    ),
    (LatencyClass.BATCH, "cpu"): _Defaults(
        max_batch=64, max_wait_ms=300, token_budget=512, prefill_chunk=256, stream=False
    ),
    (LatencyClass.BATCH, "cuda"): _Defaults(
        max_batch=64, max_wait_ms=300, token_budget=8192, prefill_chunk=2048, stream=False
    ),
}
PROG = "python -m splitpool_worker serve"
_DEFAULT_MAX_STEP_MS = {"cpu": 100.0, "cuda": 50.0}


def parse(argv: Sequence[str], env: Mapping[str, str]) -> WorkerConfig:
    """The arguments after `serve`. Raises ConfigError, SystemExit(0) for --help."""
    head, groups = _split(argv)
    classes_parser = _class_parser()
    classes: list[argparse.Namespace] = []
    for group in groups:
        parsed, others = classes_parser.parse_known_args(group)
        classes.append(parsed)
        head += others
    known = _worker_parser(classes_parser).parse_args(head)
    if known.quantization != "none" and known.device != "cpu":
        raise ConfigError(
            f"--quantization {known.quantization}: runs on --device cpu only, and the device is "
            f"{known.device}; leave it out"
        )
    return _config(known, _classes(classes, known.device), env)


def _split(argv: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The flags before the first `--class`, and each class with the flags after it."""
    groups: list[list[str]] = [[]]
    for argument in argv:
        if argument == "--class" or argument.startswith("--class="):
            groups.append([])
        groups[-1].append(argument)
    return groups[0], groups[1:]


def _config(
    known: argparse.Namespace, classes: tuple[ClassConfig, ...], env: Mapping[str, str]
) -> WorkerConfig:
    max_step_ms = known.max_step_ms or _DEFAULT_MAX_STEP_MS[known.device]
    return WorkerConfig(
        pool=known.pool,
        namespace=known.namespace,
        name=known.name or f"{known.pool}-{classes[0].cls}-0",
        model_name=known.model_name,
        model=known.model,
        dtype=known.dtype,
        quantization=known.quantization,
        max_model_len=known.max_model_len,
        device=known.device,
        host=known.host,
        port=known.port,
        threads=known.threads,
        max_step_s=max_step_ms / 1000,
        draft_tokens=known.draft_tokens,
        resume_mode=ResumeMode(known.resume_mode),
        resume_window_s=known.resume_window_seconds,
        resume_buffer_bytes=known.resume_buffer_bytes,
        drain_s=known.drain_seconds,
        block_size=known.block_size,
        ops=known.ops,
        step_log=known.step_log,
        static=known.static,
        class_priority=known.class_priority,
        classes=classes,
        host_memory=known.host_memory_bytes,
        internal_token=env.get("SPLITPOOL_INTERNAL_TOKEN") or None,
        node_name=env.get("NODE_NAME") or None,
    )


def _classes(parsed: Sequence[argparse.Namespace], device: str) -> tuple[ClassConfig, ...]:
    if not parsed:
        raise ConfigError("--class is missing: give --class interactive, --class batch or both")
    names = [part.cls for part in parsed]
    if len(set(names)) < len(names):
        raise ConfigError(f"--class {names[0]} is given twice: give each class once")
    classes = [_class(part, _DEFAULTS[LatencyClass(part.cls), device]) for part in parsed]
    return tuple(sorted(classes, key=lambda part: list(LatencyClass).index(part.cls)))


def _class(known: argparse.Namespace, defaults: _Defaults) -> ClassConfig:
    def given(name: str) -> Any:
        value = getattr(known, name)
        return getattr(defaults, name) if value is None else value

    part = ClassConfig(
        cls=LatencyClass(known.cls),
        vram_bytes=known.vram_bytes,
        max_batch=given("max_batch"),
        max_wait_s=given("max_wait_ms") / 1000,
        token_budget=given("token_budget"),
        prefill_chunk=given("prefill_chunk"),
        max_length_ratio=known.max_length_ratio,
        prefix_cache=known.prefix_cache,
        stream=given("stream"),
    )
    if part.token_budget <= part.max_batch:
        raise ConfigError(
            f"--token-budget {part.token_budget} of class {part.cls}: must be larger than "
            f"--max-batch {part.max_batch}, else prefill gets no share; raise it"
        )
    return part


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving the process, so that there is one way to report an error."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see `{self.prog} --help`")


def number(
    parse_text: Callable[[str], Any], low: float, high: float | None = None
) -> Callable[[str], Any]:
    """An argument type with bounds that says value, limit and remedy when they are broken."""

    def convert(text: str) -> Any:
        try:
            value = parse_text(text)
        except QuantityError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is no number: {error}") from error
        if value < low or (high is not None and value > high):
            upper = "" if high is None else f" and at most {high:g}"
            raise argparse.ArgumentTypeError(f"{text} must be at least {low:g}{upper}")
        return value

    return convert


def _worker_parser(classes: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser = Parser(
        prog=PROG,
        description="Serve one model to one latency class, or to both.",
        epilog=f"Flags after a --class belong to it:\n\n{_class_help(classes)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_identity(parser)
    _add_model(parser)
    _add_serving(parser)
    return parser


def _class_help(classes: argparse.ArgumentParser) -> str:
    return classes.format_help().partition("options:\n")[2]


def _add_identity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pool", default="pool", help="InferencePool that this worker is of")
    parser.add_argument("--namespace", default="default", help="its namespace")
    parser.add_argument("--name", help="unique name of this worker (default: POOL-CLASS-0)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=number(int, 0, 65535), default=8000, help="port (0: any free one)"
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model-name", required=True, help="what clients send as `model`")
    parser.add_argument(
        "--model", required=True, help="file:///DIRECTORY-OR-FILE.gguf or python://PACKAGE/FILE"
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        default="none",
        help="int8: weights are quantised when they are loaded, activations row by row (cpu only)",
    )
    parser.add_argument(
        "--max-model-len", type=number(int, 1), help="longest sequence (default: the model's own)"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ops", choices=("auto", "reference", "cpu"), default="auto")
    parser.add_argument("--block-size", type=number(int, 1, 256), default=16, help="of the KV")


def _add_serving(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--threads", type=number(int, 1, 1024), default=os.cpu_count() or 1)
    add(
        "--max-step-ms",
        type=number(float, 1),
        help="no step is planned to take longer (default: 100 on cpu, 50 on cuda)",
    )
    add(
        "--draft-tokens",
        type=number(int, 0, 15),
        default=7,
        help="tokens guessed from the text so far that a decoding sequence may have computed in a "
        "step beside its next one, where that is likely to save steps (default: 7; 0: none)",
    )
    add("--resume-mode", choices=[mode.value for mode in ResumeMode], default="OnRequest")
    add("--resume-window-seconds", type=number(float, 0, 86400), default=30.0)
    add("--resume-buffer-bytes", type=number(to_bytes, 4096), default=4 << 20)
    add(
        "--host-memory-bytes",
        type=number(to_bytes, 0),
        default=1 << 30,
        help="what the process may take beside its quotas (default: 1Gi)",
    )
    add("--drain-seconds", type=number(float, 0), default=120.0, help="for running streams")
    add("--step-log", metavar="FILE", help="write one JSON line per step")
    add("--static", action="store_true", help="comparison only: batches with fixed members")
    add(
        "--no-class-priority",
        dest="class_priority",
        action="store_false",
        help="comparison only: first come, first served over both classes",
    )


def _class_parser() -> argparse.ArgumentParser:
    parser = Parser(prog=PROG, add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--class", dest="cls", choices=[cls.value for cls in LatencyClass], required=True
    )
    parser.add_argument(
        "--vram-bytes",
        type=number(to_bytes, 1),
        required=True,
        help="hard quota: bytes, or a quantity such as 4Gi",
    )
    parser.add_argument("--max-batch", type=number(int, 1, 4096))
    parser.add_argument("--max-wait-ms", type=number(float, 0))
    parser.add_argument("--token-budget", type=number(int, 1), help="tokens of one step")
    parser.add_argument("--prefill-chunk", type=number(int, 1), help="tokens of one prompt a step")
    parser.add_argument("--max-length-ratio", type=number(float, 1), default=4.0)
    parser.add_argument("--prefix-cache", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="--no-stream gathers a stream's events to at most five a second",
    )
    return parser
