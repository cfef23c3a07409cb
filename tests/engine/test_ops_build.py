"""Compiling the operations: once whoever starts first, and without a compiler still serving."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from splitpool_worker.ops.build import library
from splitpool_worker.ops.choice import OpsUnavailable, choose
from splitpool_worker.ops.compiling import BuildFailed
from splitpool_worker.ops.cpu import CpuOps

CPU = torch.device("cpu")
BUILD = "from splitpool_worker.ops.build import library; print(library())"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "splitpool"


def test_two_workers_that_start_at_once_share_one_library(cache: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", BUILD], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    paths = {worker.communicate()[0].strip() for worker in workers}
    assert [worker.returncode for worker in workers] == [0, 0]
    assert paths == {str(path) for path in cache.glob("*.so")}
    made = library().stat().st_mtime_ns
    assert library().stat().st_mtime_ns == made


@pytest.mark.usefixtures("cache")
def test_without_a_compiler_auto_runs_on_the_reference_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with caplog.at_level(logging.WARNING):
        assert choose("auto", CPU).name == "reference"
    assert [record.getMessage() for record in caplog.records] == [
        "running on the slower reference operations: no C++ compiler was found "
        "(install g++, or name one in CXX)"
    ]
    with pytest.raises(OpsUnavailable, match="--ops cpu: no C\\+\\+ compiler was found"):
        choose("cpu", CPU)


def test_a_compiler_that_fails_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = cache.parent / "broken-c++"
    compiler.write_text("#!/bin/sh\necho 'cpu.cpp:1: error: out of sorts' >&2\n[ $# = 1 ]\n")
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(BuildFailed, match="out of sorts"):
        CpuOps(1)
    assert not list(cache.glob("*.so"))


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(occupied))
    assert choose("auto", CPU).name == "reference"


def test_shapes_that_the_kernels_lack_run_on_the_reference() -> None:
    assert choose("auto", CPU, unsupported="head size 20").name == "reference"
    with pytest.raises(OpsUnavailable, match="head size 20"):
        choose("cpu", CPU, unsupported="head size 20")


def test_on_another_device_the_reference_runs() -> None:
    assert choose("auto", torch.device("cuda")).name == "reference"
