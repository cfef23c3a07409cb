"""Who forwards: our router, the bare pass-through, and the routers that are installed."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from splitpool_bench.chain import DidNotStart, free_port
from splitpool_bench.proxying import reader
from splitpool_bench.proxying.upstream import MODEL

OURS = "splitpool router"
BARE = "bare aiohttp"
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One that runs, or the worker itself."""

    name: str
    url: str
    pid: int


@contextmanager
def process(name: str, command: Sequence[str], port: int, folder: Path) -> Iterator[Proxy]:
    """Runs a program that listens on a port while the block runs; its output goes to a file."""
    log = folder / f"{name.replace(' ', '-')}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Proxy(name=name, url=f"http://127.0.0.1:{port}", pid=child.pid)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def upstream(folder: Path, *, pace: float, group: int) -> Iterator[Proxy]:
    """The worker of all of them."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "splitpool_bench.proxying.upstream", "--port", str(port)),
        *("--pace", str(pace), "--group", str(group)),
    ]
    with process("worker", command, port, folder) as worker:
        _wait(lambda: _answers(f"{worker.url}/running"), "the worker")
        yield worker


@contextmanager
def proxies(worker: Proxy, folder: Path, others: Path) -> Iterator[list[Proxy]]:
    """All that can be started, ours and the bare one first; each has answered a request."""
    with ExitStack() as stack:
        found = []
        for name, command in _commands(worker, folder, others):
            port = free_port()
            full = [*command, "--port", str(port)]
            found.append(stack.enter_context(process(name, full, port, folder)))
        for proxy in found:
            _wait(partial(_completes, proxy.url), proxy.name)
        yield found


def _commands(worker: Proxy, folder: Path, others: Path) -> Iterator[tuple[str, list[str]]]:
    endpoints = folder / "endpoints.json"
    endpoints.write_text(json.dumps(_endpoints(worker)))
    python = sys.executable
    yield OURS, [python, "-m", "splitpool_router", "--endpoints", str(endpoints)]
    bare = "splitpool_bench.proxying.passthrough"
    yield BARE, [python, "-m", bare, "--upstream", worker.url]
    same = ["--host", "127.0.0.1", "--worker-urls", worker.url, "--policy", "round_robin"]
    for name, module in (("vllm-router", "vllm_router"), ("smg", "smg")):
        own_python = others / name / "bin" / "python"
        if own_python.exists():
            metrics = ["--prometheus-port", str(free_port())]
            yield name, [str(own_python), "-m", f"{module}.launch_router", *same, *metrics]


def _endpoints(worker: Proxy) -> dict[str, object]:
    """One pool with one worker, as local mode writes them."""
    pools = {cls: {"vram": "1Gi", "replicas": 1} for cls in ("interactive", "batch")}
    pool = {
        "apiVersion": "splitpool.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": "paced", "namespace": "default", "generation": 1},
        "spec": {"model": {"name": MODEL}, "pools": pools},
    }
    endpoint = {
        "pool": "paced",
        "namespace": "default",
        "name": "paced-0",
        "classes": ["interactive"],
        "url": worker.url,
        "uid": "paced",
        "terminating": False,
    }
    return {"generation": 1, "pools": [pool], "workers": [endpoint]}


def _wait(condition: Callable[[], bool], name: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise DidNotStart(f"{name} did not answer within {START_SECONDS:.0f} s")
        time.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _completes(url: str) -> bool:
    """Whether a request goes all the way."""
    asked = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=reader.body(1),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return b"[DONE]" in answer.read()
    except OSError:
        return False


def running(worker: Proxy) -> int:
    """Streams that the worker writes to now."""
    with urllib.request.urlopen(f"{worker.url}/running", timeout=5) as answer:
        return int(json.load(answer)["running"])
