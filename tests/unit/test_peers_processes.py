"""A server that was started for a measurement, with all its children, never stays behind."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cluster.patience import patient
from peers.processes import Program, ended_by_signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions as Linux has them")

STUBBORN = "trap '' INT TERM; sleep 1000 & echo started; wait; wait"
FALLS_OVER = "sleep 1000 & echo started; exit 3"


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patient(10)
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def started(script: str, tmp_path: Path) -> tuple[Program, list[psutil.Process]]:
    """The program once its child is there, and both."""
    program = Program(["sh", "-c", script], {}, tmp_path / "log")
    until(lambda: "started" in program.said)
    found = [each for each in psutil.process_iter() if _session(each) == program.pid]
    return program, found


def _session(process: psutil.Process) -> int:
    try:
        return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("script", [STUBBORN, FALLS_OVER])
def test_nothing_is_left_of_a_server(script: str, tmp_path: Path) -> None:
    program, family = started(script, tmp_path)
    assert family

    program.stop(seconds=0.2)

    until(lambda: all(map(gone, family)))


def test_a_second_signal_does_not_cut_the_stopping_short(tmp_path: Path) -> None:
    program, family = started(STUBBORN, tmp_path)

    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        interrupted_twice(program)

    until(lambda: all(map(gone, family)))


def interrupted_twice(program: Program) -> None:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patient(10))
    finally:
        for again in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), again)
        program.stop(seconds=0.2)


def test_a_server_that_is_held_stands_still_with_its_children(tmp_path: Path) -> None:
    program, family = started(STUBBORN, tmp_path)
    try:
        program.hold()
        until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in family))
        program.go_on()
        until(lambda: all(each.status() != psutil.STATUS_STOPPED for each in family))
    finally:
        program.stop(seconds=0.2)


def test_what_a_server_said_before_it_fell_over_is_kept(tmp_path: Path) -> None:
    program = Program(["sh", "-c", "echo no such model; exit 3"], {}, tmp_path / "log")
    until(lambda: program.ended)

    assert "no such model" in program.said
