import asyncio
import itertools

import pytest

from splitpool_bench.exchange import Job, Outcome
from splitpool_bench.load import always_in_flight, at_once, closed_loop, open_loop

JOB = Job(prompt=" the", max_tokens=1, latency_class="interactive")


def outcome(**times: float) -> Outcome:
    return Outcome(latency_class="interactive", sent=0.0, ended=times.get("ended", 0.0))


async def test_an_open_loop_starts_every_job_though_none_has_ended() -> None:
    started = 0
    all_started = asyncio.Event()

    async def send(_: Job) -> Outcome:
        nonlocal started
        started += 1
        if started == 5:
            all_started.set()
        await all_started.wait()
        return outcome()

    outcomes = await asyncio.wait_for(open_loop([0.0] * 5, [JOB] * 5, send), timeout=5)

    assert len(outcomes) == 5


async def test_outcomes_come_in_the_order_of_the_jobs_and_each_is_watched_once() -> None:
    numbers = itertools.count()
    watched: list[Outcome] = []

    async def send(_: Job) -> Outcome:
        return outcome(ended=float(next(numbers)))

    outcomes = await at_once([JOB] * 4, send, watched.append)

    assert [o.ended for o in outcomes] == [0, 1, 2, 3]
    assert sorted(watched, key=lambda o: o.ended) == outcomes


async def test_a_background_load_keeps_its_number_in_flight_and_ends_with_its_block() -> None:
    in_flight = 0
    release = asyncio.Semaphore(0)
    full = asyncio.Event()

    async def send(_: Job) -> Outcome:
        nonlocal in_flight
        in_flight += 1
        if in_flight == 3:
            full.set()
        try:
            await release.acquire()
        finally:
            in_flight -= 1
        return outcome()

    async with always_in_flight(3, itertools.repeat(JOB), send) as finished:
        await asyncio.wait_for(full.wait(), 5)
        full.clear()
        release.release()
        await asyncio.wait_for(full.wait(), 5)
        assert len(finished) == 1

    assert in_flight == 0


def test_a_stream_has_ttft_tpot_and_gaps_on_one_clock() -> None:
    result = Outcome(
        latency_class="batch", sent=10, ended=14.5, content_times=(11, 12, 14), output_tokens=4
    )

    assert result.ttft == 1
    assert result.tpot == 1
    assert result.gaps == [1, 2]
    assert result.e2e == 4.5


@pytest.mark.parametrize("tokens", [0, 1])
def test_fewer_than_two_tokens_have_no_time_per_token(tokens: int) -> None:
    times = (1.0,) * tokens

    assert (
        Outcome(
            latency_class="batch", sent=0, ended=2, content_times=times, output_tokens=tokens
        ).tpot
        is None
    )


async def test_a_closed_loop_never_has_more_in_flight_than_users_and_runs_every_job() -> None:
    in_flight = most = 0

    async def send(_: Job) -> Outcome:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0)
        in_flight -= 1
        return outcome()

    outcomes = await closed_loop(3, [JOB] * 10, send)

    assert (len(outcomes), most) == (10, 3)


async def test_an_open_loop_tells_how_late_every_start_was() -> None:
    late: list[float] = []

    async def send(_: Job) -> Outcome:
        return outcome()

    await open_loop([0.0] * 3, [JOB] * 3, send, late=late.append)

    assert len(late) == 3
    assert all(each >= 0 for each in late)
