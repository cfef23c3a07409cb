"""A whole chain as a child process: `splitpool up FILE`, ready to measure, stopped at the end."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

STOP_SECONDS = 30.0


class DidNotStart(RuntimeError):
    """`splitpool up` ended, or was not ready in time; carries the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker as the endpoints file lists it."""

    name: str
    classes: tuple[str, ...]
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A running chain: the router's URL, and the folder that holds its state and logs."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path
    model: str

    @property
    def output(self) -> str:
        """What `splitpool up` and its children have printed so far."""
        return (self.folder / "up.log").read_text(errors="replace")

    def workers(self) -> list[Worker]:
        """The workers that the endpoints file lists now."""
        try:
            listed = json.loads((self.folder / "state" / "endpoints.json").read_bytes())["workers"]
        except FileNotFoundError:
            return []
        return [
            Worker(name=w["name"], classes=tuple(w["classes"]), url=w["url"])
            for w in listed
            if not w["terminating"]
        ]

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask for a clean stop and wait; kills only where that fails. Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextmanager
def running(
    file: Path,
    folder: Path,
    *,
    flags: Sequence[str] = (),
    start_seconds: float = 180.0,
) -> Iterator[Chain]:
    """Start a pool file, wait until every worker is ready, stop it at the end of the block."""
    chain = start(file, folder, flags=flags)
    try:
        wait_until_ready(chain, start_seconds)
        yield chain
    finally:
        chain.stop()


def start(file: Path, folder: Path, *, flags: Sequence[str] = ()) -> Chain:
    """Start `splitpool up` without waiting for it."""
    port = free_port()
    command = [
        *(str(Path(sys.executable).with_name("splitpool")), "up", str(file)),
        *("--port", str(port)),
        *("--state-dir", str(folder / "state"), "--log-dir", str(folder / "logs")),
        *flags,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "up.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    return Chain(
        process=process, url=f"http://127.0.0.1:{port}", folder=folder, model=_model_name(file)
    )


def wait_until_ready(chain: Chain, seconds: float) -> None:
    """Poll the router until it has seen every worker ready."""
    deadline = time.monotonic() + seconds
    while not _all_ready(chain):
        if chain.process.poll() is not None:
            raise DidNotStart(f"exit status {chain.process.returncode}:\n{chain.output[-4000:]}")
        if time.monotonic() > deadline:
            raise DidNotStart(f"not ready after {seconds:.0f} s:\n{chain.output[-4000:]}")
        time.sleep(0.2)


def free_port() -> int:
    """A loopback port that nothing listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def steps(chain: Chain, worker: str) -> list[dict[str, Any]]:
    """The step log of one worker, one record a step."""
    text = (chain.folder / "state" / "steps" / f"{worker}.jsonl").read_text()
    whole, _, _ = text.rpartition("\n")  # a line that is being written has no newline yet
    return [json.loads(line) for line in whole.splitlines()]


def _all_ready(chain: Chain) -> bool:
    """Whether the router has seen every worker of the endpoints file ready."""
    listed = sum(len(worker.classes) for worker in chain.workers())
    try:
        with urllib.request.urlopen(f"{chain.url}/internal/pools", timeout=2) as response:
            pools = json.load(response)["pools"]
    except OSError:
        return False
    classes = [figures for pool in pools for figures in pool["classes"].values()]
    seen = sum(figures["workers"] for figures in classes)
    ready = sum(figures["ready"] for figures in classes)
    return bool(0 < listed == seen == ready)


def _model_name(file: Path) -> str:
    name = YAML(typ="safe").load(file)["spec"]["model"]["name"]
    return str(name)
