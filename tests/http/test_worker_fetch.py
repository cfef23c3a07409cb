"""A model comes from a hub with what a worker reads of it, or the last line says why not."""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.fake_hub import Hub, hub

FILES = {
    "config.json": b"{}",
    "model.safetensors": b"weights" * 1000,
    "tokenizer.json": b"{}",
    "pytorch_model.bin": b"the same weights",
    "onnx/config.json": b"{}",
    "README.md": b"about it",
}


@pytest.fixture
def models() -> Iterator[Hub]:
    with hub() as running:
        running.models = {"org/model": FILES, "org/other": {"model.gguf": b"GGUF"}}
        running.refused = {
            "org/gated": (403, "GatedRepo"),
            "org/broken": (500, ""),
        }
        yield running


async def fetch(
    source: str, folder: Path, endpoint: str, home: Path
) -> tuple[int, Mapping[str, Any]]:
    """Exit status, and the error in the last line where there is one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "splitpool_worker", "fetch", source, "--to", str(folder)),
        env={"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    code = await process.wait()
    return code, json.loads(said.splitlines()[-1])["error"] if code else {}


async def test_what_a_worker_reads_is_fetched_and_nothing_else(models: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    code, _ = await fetch("hf://org/model", folder, models.url, tmp_path / "home")
    assert code == 0
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert found == {
        name: FILES[name] for name in ("config.json", "model.safetensors", "tokenizer.json")
    }
    assert "pytorch_model.bin" not in models.sent

    models.sent.clear()
    assert (await fetch("hf://org/model", folder, models.url, tmp_path / "home"))[0] == 0
    assert "model.safetensors" not in models.sent


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("hf://org/none", ("no such model", "HF_TOKEN")),
        ("hf://org/gated", ("let in", "HF_TOKEN")),
        ("hf://org/model@v9", ("no revision 'v9'", "@")),
        ("hf://org/broken", ("answers 500", "again later")),
        ("hf://org/other", ("no *.safetensors", "another repository")),
        ("file:///model", ("only hf://ORG/REPO",)),
    ],
)
async def test_the_last_line_says_why_a_model_did_not_come_and_what_to_do(
    models: Hub, tmp_path: Path, source: str, words: tuple[str, ...]
) -> None:
    code, error = await fetch(source, tmp_path / "model", models.url, tmp_path / "home")
    assert (code, error["code"]) == (5, "model_not_fetched")
    for each in (source, *words):
        assert each in error["message"]


async def test_a_hub_that_is_not_there_and_a_folder_that_cannot_be_are_told_apart(
    models: Hub, tmp_path: Path, unused_tcp_port: int
) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    home = tmp_path / "home"
    _, error = await fetch("hf://org/model", tmp_path / "model", nowhere, home)
    assert f"{nowhere} does not send it" in error["message"]
    assert "HF_ENDPOINT" in error["message"]

    (tmp_path / "file").write_text("no folder")
    _, error = await fetch("hf://org/model", tmp_path / "file" / "model", models.url, home)
    assert "this user may write" in error["message"]
    assert "HF_ENDPOINT" not in error["message"]
