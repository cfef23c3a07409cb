"""Large bodies are parsed elsewhere than on the event loop, one after the other."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from splitpool_serving.large_bodies import INLINE_BYTES, LargeBodies

LARGE = b" " * (INLINE_BYTES + 1)


@pytest.fixture
async def bodies() -> AsyncIterator[LargeBodies]:
    made = LargeBodies()
    yield made
    made.close()


async def test_a_small_body_is_parsed_at_once_and_a_large_one_in_a_thread(
    bodies: LargeBodies,
) -> None:
    async def thread(body: bytes) -> threading.Thread:
        return await bodies.parse(body, lambda _: threading.current_thread())

    assert await thread(LARGE[:-1]) is threading.main_thread()
    assert await thread(LARGE) is not threading.main_thread()


async def test_the_loop_runs_while_a_large_body_is_parsed_and_the_next_one_waits(
    bodies: LargeBodies,
) -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop, log = asyncio.get_running_loop(), list[str]()

    def slow(body: bytes) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(20)
        log.append("first")

    first = asyncio.create_task(bodies.parse(LARGE, slow))
    await begun.wait()
    second = asyncio.create_task(bodies.parse(LARGE, lambda _: log.append("second")))
    await asyncio.sleep(0)
    assert log == []
    go_on.set()
    await asyncio.gather(first, second)
    assert log == ["first", "second"]


async def test_what_parsing_raises_is_raised(bodies: LargeBodies) -> None:
    def refuse(body: bytes) -> None:
        raise ValueError("no")

    for body in (b"", LARGE):
        with pytest.raises(ValueError, match="no"):
            await bodies.parse(body, refuse)
