"""The router keeps knowing what a cluster has, however listings and watches break."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from fakes.fake_api_server import (
    EXPIRED,
    FakeApiServer,
    Watch,
    bookmark,
    line,
    named,
    refusal,
    serving,
)
from fakes.router_rig import until
from splitpool_kube.access import Access
from splitpool_router.cluster import api as api_module
from splitpool_router.cluster.api import Api, Object, Source
from splitpool_router.cluster.following import Follower, Pauses

SOURCE = Source(group="a.example/v1", plural="things", namespace="default", selector="x")


@dataclass
class Things:
    """What is known, by name."""

    known: dict[str, int] = field(default_factory=dict)

    def replace(self, objects: Iterable[Object]) -> None:
        self.known = {found["metadata"]["name"]: found["value"] for found in objects}

    def put(self, found: Object) -> None:
        self.known[found["metadata"]["name"]] = found["value"]

    def drop(self, found: Object) -> None:
        self.known.pop(found["metadata"]["name"], None)


@dataclass
class Following:
    """A follower of a scripted server, and the pauses that it made."""

    server: FakeApiServer
    things: Things
    follower: Follower
    pauses: list[float]


@asynccontextmanager
async def following(
    server: FakeApiServer, *, behind_proxy: bool = False, **user: Any
) -> AsyncIterator[Following]:
    """Follow the server; where it is behind a proxy, that is the only way to it."""
    things, pauses = Things(), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with serving(server), aiohttp.ClientSession() as http:
        if behind_proxy:
            access = Access(server="http://api.invalid", proxy=server.url, **user)
        else:
            access = Access(server=server.url, **user)
        follower = Follower(
            SOURCE,
            things,
            connect=lambda: Api(http, access),
            clock=lambda: 7.0,
            sleep=sleep,
        )
        task = asyncio.create_task(follower.run())
        try:
            yield Following(server, things, follower, pauses)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_is_listed_and_what_happens_then_is_known() -> None:
    happens = [
        line("ADDED", named("c", 3, version=8)),
        line("MODIFIED", named("a", 9, version=9)),
        line("DELETED", named("b", 2, version=10)),
    ]
    server = FakeApiServer(
        objects=[named("a", 1), named("b", 2)], version=7, watches=[Watch(lines=happens)]
    )
    async with following(server) as it:
        await until(lambda: it.things.known == {"a": 9, "c": 3})
        assert server.watched[0]["resourceVersion"] == "7"
        assert server.watched[0]["allowWatchBookmarks"] == "true"
        assert 40 <= int(server.watched[0]["timeoutSeconds"]) <= 60
        assert server.watched[0]["labelSelector"] == server.lists[0]["labelSelector"] == "x"


async def test_a_server_behind_a_proxy_is_reached_through_it() -> None:
    server = FakeApiServer(objects=[named("a", 1)], watches=[Watch(lines=[])])
    async with following(server, behind_proxy=True) as it:
        await until(lambda: it.things.known == {"a": 1} and len(server.watched) == 1)
        assert {each["Host"] for each in server.headers} == {"api.invalid"}


async def test_a_long_listing_comes_in_pages() -> None:
    server = FakeApiServer(objects=[named(f"n{n}", n) for n in range(7)], page=3)
    async with following(server) as it:
        await until(lambda: len(it.things.known) == 7)
        assert [query.get("continue") for query in server.lists] == [None, "3", "6"]


async def test_a_watch_that_ends_in_order_goes_on_from_its_last_version() -> None:
    first = Watch(lines=[line("ADDED", named("a", 1, version=5)), bookmark(30)], then="end")
    server = FakeApiServer(watches=[first, Watch(lines=[line("ADDED", named("b", 2, version=31))])])
    async with following(server) as it:
        await until(lambda: it.things.known == {"a": 1, "b": 2})
        assert [query["resourceVersion"] for query in server.watched] == ["1", "30"]
        assert len(server.lists) == 1


@pytest.mark.parametrize(
    "ends",
    [
        Watch(lines=[line("ERROR", EXPIRED)], then="end"),
        Watch(status=410, refusal=EXPIRED),
        Watch(status=504, refusal=refusal(504, "Too large resource version")),
        Watch(then="cut"),
        Watch(lines=[b'{"type": "ADDED", "object": {"metad'], then="cut"),
        Watch(lines=[b"<html>no event</html>\n"], then="end"),
        Watch(lines=[b'{"type": "ADDED"}\n'], then="end"),
        Watch(lines=[line("ERROR", refusal(500, "no"))], then="end"),
        Watch(status=403, refusal=refusal(403, "no watching")),
        Watch(status=429, refusal=refusal(429, "too many")),
    ],
    ids=["410-event", "410", "504", "cut", "torn", "html", "no-object", "500-event", "403", "429"],
)
async def test_after_a_broken_watch_a_new_listing_forgets_what_vanished(ends: Watch) -> None:
    server = FakeApiServer(objects=[named("a", 1), named("gone", 2)], watches=[ends])
    async with following(server) as it:
        await until(lambda: len(server.watched) >= 1)
        server.objects = [named("a", 1), named("new", 3)]
        await until(lambda: it.things.known == {"a": 1, "new": 3})


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 503])
async def test_while_nothing_can_be_listed_what_was_known_stays(status: int) -> None:
    server = FakeApiServer(objects=[named("a", 1)], watches=[Watch(then="cut")])
    async with following(server) as it:
        server.refuse_lists = [(status, refusal(status, "not now"))] * 5
        await until(lambda: len(server.lists) >= 6)
        assert it.things.known == {"a": 1}
        await until(lambda: len(server.watched) >= 2)


async def test_a_listing_that_is_none_is_asked_for_again() -> None:
    server = FakeApiServer(objects=[named("a", 1)], refuse_lists=[(200, {"kind": "other"})])
    async with following(server) as it:
        await until(lambda: it.things.known == {"a": 1})


async def test_a_silent_watch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "_SILENCE_SECONDS", 0.1)
    server = FakeApiServer(objects=[named("a", 1)])
    async with following(server):
        await until(lambda: len(server.lists) >= 2)


async def test_an_object_of_megabytes_is_one_line() -> None:
    large = named("a", 1, version=2)
    large["padding"] = "x" * 2_000_000
    async with following(FakeApiServer(watches=[Watch(lines=[line("ADDED", large)])])) as it:
        await until(lambda: it.things.known == {"a": 1})


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "_MAX_LINE", 1000)
    server = FakeApiServer(watches=[Watch(lines=[b"x" * 5000])])
    async with following(server):
        await until(lambda: len(server.lists) >= 2)


async def test_failures_are_followed_by_ever_longer_pauses_until_something_comes() -> None:
    server = FakeApiServer(
        refuse_lists=[(503, refusal(503, "not now"))] * 8,
        watches=[Watch(lines=[bookmark(3)], then="cut")],
    )
    async with following(server) as it:
        await until(lambda: len(server.watched) >= 2)
        assert it.pauses[0] <= 0.5
        assert max(it.pauses) <= 10.0
        assert it.pauses[7] > it.pauses[0]
        assert it.pauses[8] <= 0.5


async def test_watches_that_end_at_once_are_not_opened_in_a_hurry() -> None:
    server = FakeApiServer(watches=[Watch(then="end")] * 5)
    async with following(server) as it:
        await until(lambda: len(server.watched) >= 6)
        assert len(it.pauses) == 5


def test_pauses_differ_between_routers_and_stay_within_ten_seconds() -> None:
    one, other = Pauses(random.Random(1)), Pauses(random.Random(2))
    assert [one.next() for _ in range(9)] != [other.next() for _ in range(9)]
    assert 5.0 <= one.next() <= 10.0
    one.reset()
    assert one.next() <= 0.5


async def test_a_token_is_read_again_as_it_rotates(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    server = FakeApiServer(watches=[Watch(then="cut")])
    async with following(server, token=token):
        await until(lambda: len(server.watched) >= 1)
        token.write_text("second\n")
        await until(lambda: len(server.watched) >= 2)
    said = [headers["Authorization"] for headers in server.headers]
    assert said[:2] == ["Bearer first", "Bearer first"]
    assert said[-1] == "Bearer second"


async def test_a_token_that_is_away_for_a_moment_is_waited_for(tmp_path: Any) -> None:
    token = tmp_path / "token"
    server = FakeApiServer(objects=[named("a", 1)])
    async with following(server, token=token) as it:
        await until(lambda: len(it.pauses) >= 2)
        token.write_text("there")
        await until(lambda: it.things.known == {"a": 1})
