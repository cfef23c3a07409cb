"""The worker's command: `serve` a model, `inspect` what it would need, or `fetch` it."""

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from splitpool_worker import config
from splitpool_worker.checkpoint import fetch, footprint, inspect
from splitpool_worker.config import ConfigError, WorkerConfig
from splitpool_worker.exits import OUTPUT_LOST, Refused, refusing
from splitpool_worker.holding import bind, open_step_log
from splitpool_worker.sizing import expected_ops, sized

log = logging.getLogger("splitpool_worker")

USAGE = "usage: python -m splitpool_worker {serve,inspect,fetch} ...   (--help after each)"
# Threads of torch wait for the next parallel region by spinning so often, then sleep: spinning
# without bound starves whoever shares the cores, sleeping at once makes every small step slower.
SPIN_COUNT = "2000"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = {"serve": _serve, "inspect": _inspect, "fetch": _fetch}
    if arguments[:1] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    try:
        with refusing():
            if not arguments or arguments[0] not in commands:
                raise ConfigError(f"command {' '.join(arguments[:1])!r} is not known; {USAGE}")
            return commands[arguments[0]](arguments[1:])
    except Refused as error:
        print(f"splitpool worker: {error}", file=sys.stderr)
        line = {"error": {"code": error.name, "message": str(error)}}
        print(json.dumps(line), file=sys.stderr, flush=True)
        return error.code


def _inspect(argv: Sequence[str]) -> int:
    known = _inspect_parser().parse_args(argv)
    card = inspect.describe(
        known.model,
        known.dtype,
        max_model_len=known.max_model_len,
        block_size=known.block_size,
        max_tokens=known.max_tokens,
        max_rows=known.max_rows,
        ops=known.ops,
        quantization=known.quantization,
    )
    _say(json.dumps(card.to_json()))
    return 0


def _inspect_parser() -> argparse.ArgumentParser:
    parser = config.Parser(
        prog="python -m splitpool_worker inspect",
        description="Print what a model needs, as JSON, without loading it.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--model", required=True, help="source URI")
    add("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    add("--quantization", choices=footprint.QUANTIZATIONS, default="none")
    add("--max-model-len", type=config.number(int, 1))
    add("--block-size", type=config.number(int, 1, 256), default=16)
    add("--max-tokens", type=config.number(int, 1), default=512, help="of the largest step")
    add("--max-rows", type=config.number(int, 1), help="sequences of the largest step")
    add("--ops", choices=("cpu", "reference"), default="cpu")
    return parser


def _fetch(argv: Sequence[str]) -> int:
    parser = config.Parser(
        prog="python -m splitpool_worker fetch",
        description="Bring a model from a hub into a folder.",
        allow_abbrev=False,
    )
    parser.add_argument("source", help="hf://ORG/REPO[@REVISION]")
    parser.add_argument("--to", required=True, type=Path, metavar="FOLDER")
    known = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, _drop)
    _say(f"fetching {known.source} to {known.to}")
    size = fetch.fetch(known.source, known.to)
    _say(f"fetched {known.source}: {size} bytes")
    return 0


def _serve(argv: Sequence[str]) -> int:
    worker = config.parse(argv, os.environ)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    _set_threads(worker, os.environ)
    signal.signal(signal.SIGTERM, _leave)  # until there is something to drain
    with ExitStack() as stack:
        bound = stack.enter_context(bind(worker))
        path = worker.step_log
        step_log = stack.enter_context(open_step_log(path)) if path else None
        sized(worker, expected_ops(worker))  # what cannot fit is refused at once
        log.info("loading %s", worker.model)
        from splitpool_worker.launch import launch  # torch reads its threads when imported

        return launch(worker, bound, step_log)


def _say(line: str) -> None:
    try:
        print(line, flush=True)
    except OSError as error:
        message = (
            f"standard output cannot be written: {error.strerror}; free room or write elsewhere"
        )
        raise Refused(OUTPUT_LOST, "output_lost", message) from error


def _drop(signum: int, frame: object) -> None:
    """A download ends at once: what is there is used by the next one."""
    os._exit(128 + signum)


def _leave(signum: int, frame: object) -> None:
    raise SystemExit(0)


def _set_threads(worker: WorkerConfig, env: MutableMapping[str, str]) -> None:
    """How many threads torch gets and how they wait, where the plan has not said so."""
    env.setdefault("OMP_NUM_THREADS", str(worker.threads))
    if worker.threads > 1:
        env.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    # One prompt at a time is tokenised: a pool of threads for that would only fight the engine.
    env.setdefault("TOKENIZERS_PARALLELISM", "false")
    if env["OMP_NUM_THREADS"] != str(worker.threads):
        log.warning(
            "OMP_NUM_THREADS is %s, --threads %d is used", env["OMP_NUM_THREADS"], worker.threads
        )
    if env.get("OMP_WAIT_POLICY", "").lower() == "passive":
        log.warning("OMP_WAIT_POLICY=passive makes steps up to three times slower: unset it")


def _exit(code: int) -> NoReturn:
    """Leave without the interpreter's own farewell, which takes seconds once torch is loaded;
    everything that has to be closed is closed."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _exit(main())
