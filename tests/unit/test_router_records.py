"""What is counted and remembered per request: targets, parts of a TTFT, live ids, stalls."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_router.caller import ANONYMOUS, BadKeyFile, Callers, read_keys
from splitpool_router.config import BadConfig, parse
from splitpool_router.errors import DuplicateRequest, QueueFull, Unauthorized
from splitpool_router.fleet.workers import Endpoint, Worker
from splitpool_router.forwarding.streams import Live, LiveRequests, stream_key
from splitpool_router.forwarding.watchdog import Guard, Watchdog
from splitpool_router.measuring.metrics import EDGES, length_group
from splitpool_router.measuring.target import Target
from splitpool_router.measuring.timing import WORKER_PARTS, RouterTimes, split
from splitpool_router.placing.classify import LatencyClass

NAME = ("caller", "request-1")
WORKER = Worker(endpoint=Endpoint(pool="p", name="w", classes=frozenset(), url="http://x", uid="1"))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def verdicts(seconds: float, *, elapsed: float = 0.0) -> tuple[Target, list[bool]]:
    counted: list[bool] = []
    return Target(counted.append, seconds=seconds, elapsed=elapsed), counted


async def test_a_first_token_in_time_is_within_and_a_late_one_is_not() -> None:
    in_time, first = await verdicts(60)
    in_time.first_token(59)
    late, second = await verdicts(60)
    late.first_token(61)
    assert (first, second) == ([True], [False])


async def test_a_waiting_request_counts_the_moment_it_passes_its_target_and_once() -> None:
    target, counted = await verdicts(0.5, elapsed=0.5)
    await asyncio.sleep(0.001)
    assert counted == [False]
    target.first_token(9)
    target.refused(503)
    target.left()
    assert counted == [False]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_refusal_by_us_is_a_miss(status: int) -> None:
    target, counted = await verdicts(60)
    target.refused(status)
    assert counted == [False]


@pytest.mark.parametrize("status", [400, 404, 409, 413])
async def test_a_refusal_of_a_wrong_request_does_not_count(status: int) -> None:
    target, counted = await verdicts(60)
    target.refused(status)
    assert counted == []


async def test_a_client_that_leaves_before_the_target_does_not_count() -> None:
    target, counted = await verdicts(0.01)
    target.left()
    await asyncio.sleep(0.02)
    assert counted == []


seconds = st.floats(0, 10)


@given(*[seconds] * 5, st.dictionaries(st.sampled_from(WORKER_PARTS), seconds), seconds)
def test_the_parts_add_up_to_the_ttft(
    receive: float,
    parse_: float,
    queue: float,
    retry: float,
    write: float,
    worker: dict[str, float],
    transport: float,
) -> None:
    call = sum(worker.values()) + transport
    times = RouterTimes(
        receive=receive, parse=parse_, queue=queue, retry=retry, call=call, write=write
    )
    ttft = receive + parse_ + queue + retry + call + write
    got = split(ttft, times, worker)
    assert got.queue + got.prefill + sum(got.overhead.values()) == pytest.approx(ttft, abs=1e-6)
    assert got.unexplained == pytest.approx(0, abs=1e-6)
    assert got.overhead["transport"] == pytest.approx(transport, abs=1e-6)
    assert got.service == pytest.approx(ttft - got.queue, abs=1e-6)


def test_a_worker_that_says_nothing_leaves_its_call_unexplained() -> None:
    times = RouterTimes(receive=0, parse=0, queue=1, retry=0, call=3, write=0)
    assert split(4.0, times, None).unexplained == 3


def test_the_edges_are_the_fixed_ones_and_groups_follow_prompt_length() -> None:
    assert EDGES[0] == 0.005
    assert EDGES[-1] == 60
    assert len(EDGES) == 21
    assert [length_group(n) for n in (1, 128, 129, 8192, 8193)] == [
        "le128",
        "le128",
        "le512",
        "le8192",
        "more",
    ]


def test_a_second_live_request_of_one_id_is_refused_and_of_another_caller_not() -> None:
    live = LiveRequests(Clock())
    with live.hold(NAME, window=30):
        with pytest.raises(DuplicateRequest) as refused, live.hold(NAME, window=30):
            pass
        assert not refused.value.curable
        with live.hold(("other", NAME[1]), window=30):
            pass
    with live.hold(NAME, window=30):
        pass


def test_an_id_stays_taken_through_the_window_after_a_disconnect() -> None:
    clock = Clock()
    live = LiveRequests(clock)
    cut(live, stream_id="abc")
    clock.now = 29.9
    with pytest.raises(DuplicateRequest), live.hold(NAME, window=30):
        pass
    clock.now = 30.1
    with live.hold(NAME, window=30):
        pass


def cut(live: LiveRequests, *, stream_id: str) -> None:
    """A request whose connection broke."""
    with suppress(ConnectionResetError), live.hold(NAME, window=30) as held:
        held.at(WORKER, stream_id, cls=LatencyClass.BATCH, cost=30)
        raise ConnectionResetError


def test_a_stream_holds_its_tokens_only_while_it_is_read() -> None:
    live = LiveRequests(Clock())
    cut(live, stream_id="abc")
    _, held = live.find("caller", "abc") or (None, Live())
    with held.holding():
        assert WORKER.held(LatencyClass.BATCH) == 30
    assert WORKER.held(LatencyClass.BATCH) == 0
    with Live().holding():
        pass


def test_the_id_of_a_request_whose_worker_is_gone_is_free() -> None:
    live = LiveRequests(Clock(), runs=lambda worker: worker is not WORKER)
    cut(live, stream_id="abc")
    with live.hold(NAME, window=30):
        pass


def test_who_reads_on_keeps_the_id_taken_and_a_stop_frees_it() -> None:
    clock = Clock()
    live = LiveRequests(clock)
    cut(live, stream_id="abc")
    found = live.find("caller", "abc")
    assert found is not None
    assert live.find("other", "abc") is None
    with live.reading(*found, window=30):
        clock.now = 100
        with pytest.raises(DuplicateRequest), live.hold(NAME, window=30):
            pass
        live.forget(NAME)
        with live.hold(NAME, window=30):
            pass


def test_only_ids_of_the_agreed_shape_name_a_worker() -> None:
    assert stream_key("0123abcd-" + "f" * 32) == "0123abcd"
    for other in ("0123abcd", "0123abcd-" + "f" * 31, "0123ABCD-" + "f" * 32, "req-1"):
        assert stream_key(other) is None


def test_a_relay_fires_once_when_it_stands_still_and_never_while_it_moves() -> None:
    clock, fired = Clock(), []
    dog = Watchdog(period=1, clock=clock)
    guard = Guard(
        idle_limit=5,
        stall_limit=2,
        on_idle=lambda: fired.append("idle"),
        on_stall=lambda: fired.append("stall"),
    )
    dog.watch(guard)
    for second in range(1, 20):
        clock.now, guard.ticks = second, second
        dog.sweep()
    assert fired == []
    for second in range(20, 30):
        clock.now = second
        dog.sweep()
    assert fired == ["idle"]


def test_a_client_that_does_not_read_meets_its_own_limit() -> None:
    clock, fired = Clock(), []
    dog = Watchdog(period=1, clock=clock)
    guard = Guard(
        idle_limit=100,
        stall_limit=2,
        on_idle=lambda: fired.append("idle"),
        on_stall=lambda: fired.append("stall"),
    )
    guard.writing = True
    dog.watch(guard)
    for second in (0, 1, 2, 3):
        clock.now = second
        dog.sweep()
    assert fired == ["stall"]
    dog.leave(guard)
    clock.now = 50
    dog.sweep()
    assert fired == ["stall"]


def test_callers_are_named_by_a_keyed_hash_and_never_by_their_key() -> None:
    callers = Callers(secret=b"a", keys=None)
    one = callers.identify({"Authorization": "Bearer sk-1"}).id
    assert one == callers.identify({"Authorization": "bearer  sk-1"}).id
    assert one != callers.identify({"Authorization": "Bearer sk-2"}).id
    assert one != Callers(secret=b"b", keys=None).identify({"Authorization": "Bearer sk-1"}).id
    assert "sk-1" not in one
    assert callers.identify({}).id == ANONYMOUS
    assert callers.identify({"Authorization": "Basic eA=="}).id != ANONYMOUS


def test_with_keys_only_their_holders_enter_and_a_key_clamps_the_class(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [{"key": "a"}, {"key": "b", "maxClass": "batch"}]}))
    callers = Callers(secret=b"s", keys=read_keys(path))
    assert callers.identify({"Authorization": "Bearer a"}).highest is LatencyClass.INTERACTIVE
    assert callers.identify({"X-Api-Key": "b"}).highest is LatencyClass.BATCH
    for headers in ({}, {"Authorization": "Bearer c"}, {"Authorization": "Bearer "}):
        with pytest.raises(Unauthorized):
            callers.identify(headers)


@pytest.mark.parametrize("text", ["{", "[]", '{"keys": [{"key": "sk-s", "clas": "x"}]}'])
def test_a_broken_key_file_is_refused_without_quoting_a_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(BadKeyFile) as refused:
        read_keys(path)
    assert "sk-s" not in str(refused.value)


def test_a_bad_port_or_caller_key_is_refused_by_name() -> None:
    with pytest.raises(BadConfig, match="--port 70000"):
        parse(["--endpoints", "x", "--port", "70000"], {})
    with pytest.raises(BadConfig, match="SPLITPOOL_CALLER_KEY"):
        parse(["--endpoints", "x"], {"SPLITPOOL_CALLER_KEY": "xyz"})


def test_an_error_is_an_openai_object_with_what_a_client_may_do() -> None:
    error = QueueFull("full", retry_after=7, curable=False)
    assert error.headers() == {"Retry-After": "7", "x-should-retry": "false"}
    assert json.loads(error.body()) == {
        "error": {
            "message": "full",
            "type": "rate_limit_error",
            "param": None,
            "code": "queue_full",
        }
    }
