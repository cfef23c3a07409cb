"""The small parts of local mode: delays, memory, ports, endpoints, console, progress."""

import io
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_operator.local import host_memory, inspect_model, ports, refusals
from splitpool_operator.local.backoff import Backoff
from splitpool_operator.local.console import Console
from splitpool_operator.local.endpoints import EndpointsFile
from splitpool_operator.local.progress import Phase, Progress
from splitpool_operator.local.refusals import Refused
from splitpool_operator.local.welcome import welcome
from splitpool_operator.planning.plan import plan
from unit.pool_files import CPU, GPU, pool

GIB = 1024**3


def test_delays_double_up_to_a_limit() -> None:
    backoff = Backoff(first=0.5, factor=2, longest=30)
    assert [backoff.delay(n) for n in (1, 2, 3, 6, 7, 50)] == [0.5, 1, 2, 16, 30, 30]


@settings(deadline=None)
@given(st.integers(1, 10_000))
def test_no_number_of_failures_makes_a_delay_longer_than_the_limit(failures: int) -> None:
    assert 0 < Backoff().delay(failures) <= 30


def test_a_process_that_was_ready_for_long_starts_over_without_delay() -> None:
    backoff = Backoff(forgiven_after=60)
    assert backoff.failures(4, ready_seconds=59) == 5
    assert backoff.failures(4, ready_seconds=60) == 1


def test_workers_that_need_more_memory_than_is_free_are_refused_with_the_numbers() -> None:
    made = plan(pool(CPU), cores=2)
    assert host_memory.shortage([made], 5 * GIB) is None
    said = host_memory.shortage([made], 5 * GIB - 1)
    assert said is not None
    for part in ("need 5Gi", "assistant-interactive-0 1Gi + 1Gi", "5.00Gi are free", "lower"):
        assert part in said
    with pytest.raises(Refused) as refused:
        refusals.check_memory([made, made], 5 * GIB)
    assert refused.value.code == 3


def test_gpu_workers_take_no_quota_of_host_memory() -> None:
    assert host_memory.shortage([plan(pool(GPU), cores=2)], 0) is None


def test_free_memory_is_that_of_the_machine_or_of_a_tighter_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    4096 kB\n")
    limit, used = tmp_path / "max", tmp_path / "current"
    monkeypatch.setattr(host_memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(host_memory, "_CGROUPS", ((limit, used),))
    assert host_memory.available() == 4096 * 1024
    limit.write_text("max\n")
    used.write_text("5\n")
    assert host_memory.available() == 4096 * 1024
    limit.write_text("1000\n")
    used.write_text("400\n")
    assert host_memory.available() == 600
    meminfo.unlink()
    limit.unlink()
    assert host_memory.available() is None


def test_a_free_port_can_be_used_and_a_taken_one_is_named_with_another() -> None:
    ports.check("127.0.0.1", ports.free())
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ports.PortTaken, match=rf"port {port} .*--port \d+"):
            ports.check("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused_with_the_right_remedy() -> None:
    with pytest.raises(ports.PortTaken, match=r"192\.0\.2\.1 .*--host"):
        ports.check("192.0.2.1", 8080)


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_the_endpoints_file_lists_runs_and_replaces_itself_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    made = plan(pool(CPU), cores=2)
    worker, other = made.workers
    endpoints = EndpointsFile(path, [{"kind": "InferencePool"}])
    assert read(path) == {"generation": 1, "pools": [{"kind": "InferencePool"}], "workers": []}

    endpoints.put(made, worker, "http://127.0.0.1:1")
    inode = path.stat().st_ino
    first = read(path)["workers"][0]
    assert first == {
        "pool": "assistant",
        "namespace": "default",
        "name": "assistant-interactive-0",
        "classes": ["interactive"],
        "url": "http://127.0.0.1:1",
        "uid": first["uid"],
        "terminating": False,
    }

    endpoints.put(made, worker, "http://127.0.0.1:2")
    assert path.stat().st_ino != inode
    (again,) = read(path)["workers"]
    assert again["uid"] != first["uid"]
    assert again["url"] == "http://127.0.0.1:2"

    endpoints.put(made, other, "http://127.0.0.1:3")
    endpoints.terminate()
    assert [entry["terminating"] for entry in read(path)["workers"]] == [True, True]
    endpoints.remove(worker.name)
    assert [entry["name"] for entry in read(path)["workers"]] == [other.name]
    assert read(path)["generation"] == 6
    assert os.listdir(tmp_path) == ["endpoints.json"]


def test_lines_carry_the_name_of_their_process_and_go_to_its_file(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream, live=False, coloured=False)
    sink = console.prefixed("router", 8, tmp_path / "router.log")
    sink("hello")
    console.close()
    assert stream.getvalue() == "router   | hello\n"
    assert (tmp_path / "router.log").read_text() == "hello\n"


def test_a_terminal_shows_colours_and_keeps_the_live_line_below(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream, live=True, coloured=True)
    sink = console.prefixed("router", 6, tmp_path / "router.log")
    console.status("waiting")
    sink("hello")
    console.close()
    assert stream.getvalue() == (
        "\r\x1b[2Kwaiting" + "\r\x1b[2K\x1b[36mrouter |\x1b[0m hello\nwaiting" + "\r\x1b[2K"
    )
    assert (tmp_path / "router.log").read_text() == "hello\n"


def test_nothing_spins_off_a_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(Console(stream, live=False, coloured=False), ["w"], lambda: 0.0)
    progress.draw()
    assert stream.getvalue() == ""
    progress.move("w", Phase.WARMING)
    progress.move("w", Phase.READY)
    assert stream.getvalue() == "splitpool: w is warming (0.0 s)\nsplitpool: w is ready (0.0 s)\n"


def test_a_terminal_sees_what_is_waited_for_until_all_are_ready() -> None:
    stream = io.StringIO()
    progress = Progress(Console(stream, live=True, coloured=False), ["a", "b"], lambda: 3.0)
    progress.move("a", Phase.READY)
    progress.draw()
    assert "b loading" in stream.getvalue()
    progress.move("b", Phase.READY)
    progress.draw()
    assert stream.getvalue().endswith("\r\x1b[2K")
    assert progress.all_ready


def test_a_terminal_that_went_away_stops_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:
        console = Console(gone, live=False, coloured=False)
        console.say("hello")
        console.say("again")
    console.close()


def test_a_full_disk_stops_nothing_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "router.log").symlink_to("/dev/full")
    stream = io.StringIO()
    console = Console(stream, live=False, coloured=False)
    sink = console.prefixed("router", 6, tmp_path / "router.log")
    sink("hello")
    sink("again")
    console.close()
    said = f"splitpool: {tmp_path}/router.log cannot be written: No space left on device; free"
    assert stream.getvalue().count(said) == 1
    assert "router | again" in stream.getvalue()


def test_output_that_nobody_takes_stops_nothing() -> None:
    with open("/dev/full", "w") as full:
        console = Console(full, live=False, coloured=False)
        console.say("hello")
        console.close()


def test_the_welcome_names_the_address_and_the_model() -> None:
    text = welcome("http://127.0.0.1:8080", ["smollm2"])
    assert "curl http://127.0.0.1:8080/v1/chat/completions" in text
    assert '"model": "smollm2"' in text
    assert "from openai import OpenAI" in text
    assert '"stream": true' in text


def test_the_last_error_of_a_worker_is_read_from_its_output() -> None:
    lines = ["starting", "quota too small", '{"error": {"code": "x", "message": "why"}}', ""]
    assert inspect_model.last_error(lines) == "why"
    assert inspect_model.last_error(["no json"]) is None
    assert inspect_model.last_error(["{broken"]) is None


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"spec.model.source": "hf://org/repo"}, 4, "hf://org/repo is for clusters"),
        (
            {
                "spec.model.source": "file:///m",
                "spec.sharing.minimumEnforcement": "Driver",
            },
            2,
            "Driver is more than the Cooperative",
        ),
    ],
)
def test_what_only_a_cluster_can_do_is_refused(
    changes: dict[str, Any], code: int, said: str
) -> None:
    with pytest.raises(Refused, match=said) as refused:
        refusals.check_place(pool(GPU, changes).spec)
    assert refused.value.code == code


def test_a_state_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    with refusals.lock(tmp_path), pytest.raises(Refused, match=f"in use by process {os.getpid()}"):
        refusals.lock(tmp_path)
    refusals.lock(tmp_path).close()
