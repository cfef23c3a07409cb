"""`splitpool up` as a process of its own: it leaves nothing behind, however it ends."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from splitpool_operator.local import ports
from unit.pool_files import CPU

SCRIPT = Path(__file__).parents[1] / "fakes" / "up_with_fakes.py"
PATIENCE = 30.0


@pytest.fixture
def command(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    file = tmp_path / "pool.yaml"
    file.write_text(json.dumps(CPU))
    (tmp_path / "script").write_text("{}")
    environment = os.environ | {
        "FAKE_EVENTS": str(tmp_path / "events"),
        "FAKE_SCRIPT": str(tmp_path / "script"),
        "TMPDIR": str(tmp_path),
    }
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), "up", str(file), "--port", str(ports.free())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        yield process
        process.kill()


def wait_until_ready(process: subprocess.Popen[str]) -> list[psutil.Process]:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "splitpool is ready" in line:
            return psutil.Process(process.pid).children(recursive=True)
    raise AssertionError(said)


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=PATIENCE)[1]


def test_children_end_with_a_parent_that_was_killed(command: subprocess.Popen[str]) -> None:
    children = wait_until_ready(command)
    assert len(children) == 3
    command.kill()
    assert gone(children)


def test_ctrl_c_ends_it_cleanly_and_removes_its_private_folder(
    command: subprocess.Popen[str], tmp_path: Path
) -> None:
    children = wait_until_ready(command)
    (state,) = tmp_path.glob("splitpool-*")
    assert (state / "endpoints.json").exists()
    assert state.stat().st_mode & 0o077 == 0
    command.send_signal(2)
    started = time.monotonic()
    assert command.wait(PATIENCE) == 0
    assert time.monotonic() - started < PATIENCE
    assert gone(children)
    assert not state.exists()
