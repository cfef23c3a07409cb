"""The operator asks Prometheus within limits, and takes Alertmanager's calls for hints only."""

import asyncio
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.fake_prometheus import FakePrometheus, prometheus
from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.cluster import health
from splitpool_operator.cluster import prometheus as asking
from splitpool_operator.cluster.prometheus import Prometheus, Source
from splitpool_operator.cluster.webhook import Webhook

PACE = Pace()
OWNER = ("team", "assistant", "interactive")
CALL = {"version": "4", "alerts": [{"labels": {"namespace": "team", "pool": "assistant"}}]}


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with prometheus(PACE) as serving:
        serving.tell(OWNER, rate=2, late=1, firing=1)
        yield serving


async def test_one_reading_serves_every_pool_until_it_is_old(fake: FakePrometheus) -> None:
    now, told = 100.0, list[str]()
    client = Prometheus(PACE, clock=lambda: now, told=told.append)
    one, other = await asyncio.gather(client.reading(fake.url), client.reading(fake.url))
    assert one == other
    assert one.signals[OWNER].share == 0.5
    questions = fake.asked
    now = 107.0
    assert await client.reading(fake.url) == one
    assert fake.asked == questions
    now = 111.0
    await client.reading(fake.url)
    assert fake.asked == 2 * questions
    client.expire()
    await client.reading(fake.url)
    assert fake.asked == 3 * questions
    assert told == ["done"] * 3
    client.close()


async def test_a_pool_without_any_prometheus_is_told_so() -> None:
    reading = await Prometheus(PACE).reading(None)
    assert "spec.autoscaling.prometheus.url" in str(reading.trouble)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"status": 500, "body": b"no"}, "HTTP Status Code 500"),
        ({"status": 302, "location": "http://127.0.0.1:1/"}, "HTTP Status Code 302"),
        ({"body": b"<html>"}, "cannot be asked: JSONDecodeError|does not answer as"),
        ({"body": b"{}"}, "does not answer as Prometheus does"),
        ({"body": b'{"data": {"result": "x"}}'}, "does not answer as Prometheus does"),
        ({"body": b'{"data": {"result": ' + b"[" * 100_000}, "cannot be asked|does not answer"),
        ({"body": b" " * 2000}, "more than 1000 bytes"),
    ],
)
async def test_what_is_no_answer_is_told_and_raises_nothing(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], text: str
) -> None:
    monkeypatch.setattr(asking, "_MOST_BYTES", 1000 if b" " * 9 in answer.get("body", b"") else 1e9)
    for name, value in answer.items():
        setattr(fake, name, value)
    reading = await Prometheus(PACE).reading(fake.url)
    assert reading.signals == {}
    assert any(each in str(reading.trouble) for each in text.split("|")), reading.trouble


async def test_nobody_there(unused_tcp_port: int) -> None:
    told = list[str]()
    reading = await Prometheus(PACE, told=told.append).reading(
        f"http://127.0.0.1:{unused_tcp_port}"
    )
    assert str(reading.trouble).endswith("cannot be asked: no connection")
    assert told == ["failed"]


async def test_a_prometheus_that_hangs_holds_nobody_up(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_READ_SECONDS", 0.1)
    monkeypatch.setattr(fake, "slow_seconds", 600)
    reading = await Prometheus(PACE).reading(fake.url)
    assert "in time" in str(reading.trouble)
    monkeypatch.setattr(asking, "_READ_SECONDS", 600)
    monkeypatch.setattr(asking, "_DEADLINE_SECONDS", 0.1)
    assert "no answer to all" in str((await Prometheus(PACE).reading(fake.url)).trouble)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Slow: ", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", id="endless"),
    ],
)
async def test_a_prometheus_that_answers_byte_by_byte_keeps_no_thread(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        done.set()

    done = asyncio.Event()
    monkeypatch.setattr(asking, "_DEADLINE_SECONDS", 0.3)
    monkeypatch.setattr(asking, "_GRACE_SECONDS", 60.0)
    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        # As long as a thread is kept, no reading comes back.
        reading = await Prometheus(PACE).reading(f"http://127.0.0.1:{port}")
        await done.wait()
    assert "no answer to all questions within 0.3 s" in str(reading.trouble)


async def test_pools_own_prometheuses_do_not_keep_the_operators_waiting(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_THREADS", 1)
    client = Prometheus(PACE, Source(url=fake.url))
    with prometheus(PACE) as hanging:
        hanging.slow_seconds = 600
        other = asyncio.create_task(client.reading(hanging.url))
        await asyncio.sleep(0)
        reading = await client.reading(None)
        assert not other.done()
        hanging.over.set()
        await other
    assert reading.signals[OWNER].rate == 2


async def test_a_name_and_password_in_a_url_are_not_told(unused_tcp_port: int) -> None:
    url = f"http://somebody:secret@127.0.0.1:{unused_tcp_port}"
    reading = await Prometheus(PACE, Source(url=url)).reading(None)
    assert str(reading.trouble).startswith(f"http://127.0.0.1:{unused_tcp_port} cannot be asked")


async def test_the_token_goes_to_the_operators_own_prometheus_alone(
    fake: FakePrometheus, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    await Prometheus(PACE, Source(url=fake.url, token_file=file)).reading(None)
    assert fake.headers["Authorization"] == "Bearer secret"
    await Prometheus(PACE, Source(url="http://other", token_file=file)).reading(fake.url)
    assert "Authorization" not in fake.headers


class Endpoint:
    """The webhook of one replica, and what it was made to look at."""

    def __init__(self, token: Path) -> None:
        self.leads = True
        self.looked: list[set[tuple[str, str]]] = []
        self.told: list[str] = []
        self.webhook = Webhook(
            token_file=token,
            leading=lambda: self.leads,
            look=self.looked.append,
            told=self.told.append,
        )


@pytest.fixture
def endpoint(tmp_path: Path) -> Endpoint:
    token = tmp_path / "token"
    token.write_text("right\n")
    return Endpoint(token)


async def send(
    endpoint: Endpoint, port: int, body: bytes, headers: dict[str, str] | None = None
) -> int:
    given = {"Authorization": "Bearer right"} if headers is None else headers
    runner = await endpoint.webhook.serve(port)
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"http://127.0.0.1:{port}/alerts", data=io.BytesIO(body), headers=given
            ) as answer,
        ):
            return answer.status
    finally:
        await runner.cleanup()


async def test_a_call_makes_the_operator_look_and_so_does_its_duplicate(
    endpoint: Endpoint, unused_tcp_port: int
) -> None:
    body = json.dumps(CALL).encode()
    assert await send(endpoint, unused_tcp_port, body) == 204
    assert await send(endpoint, unused_tcp_port, body) == 204
    assert endpoint.looked == [{("team", "assistant")}] * 2


@pytest.mark.parametrize(
    "headers",
    [
        *({}, {"Authorization": "right"}, {"Authorization": "Bearer wrong"}),
        *({"Authorization": "Bearer "}, {"Authorization": "Basic right"}),
        *({"Authorization": "Bearer righ"}, {"Authorization": "Bearer r\u00efght"}),
    ],
)
async def test_forged_calls_are_refused_unread(
    endpoint: Endpoint, unused_tcp_port: int, headers: dict[str, str]
) -> None:
    assert await send(endpoint, unused_tcp_port, json.dumps(CALL).encode(), headers) == 401
    assert (endpoint.looked, endpoint.told) == ([], ["unauthorized"])


async def test_without_a_token_nobody_may_call(
    endpoint: Endpoint, unused_tcp_port: int, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("")
    body, empty = json.dumps(CALL).encode(), {"Authorization": "Bearer "}
    assert await send(endpoint, unused_tcp_port, body, empty) == 401
    (tmp_path / "token").unlink()
    assert await send(endpoint, unused_tcp_port, body) == 401
    (tmp_path / "token").write_text("right")
    assert await send(endpoint, unused_tcp_port, body) == 204


async def test_a_replica_that_does_not_lead_leaves_the_call_to_the_other(
    endpoint: Endpoint, unused_tcp_port: int
) -> None:
    """On another connection: behind a Service that is what may reach the other."""
    endpoint.leads = False
    body, headers = json.dumps(CALL).encode(), {"Authorization": "Bearer right"}
    runner = await endpoint.webhook.serve(unused_tcp_port)
    url = f"http://127.0.0.1:{unused_tcp_port}/alerts"
    async with aiohttp.ClientSession() as http:
        async with http.post(url, data=body, headers=headers) as answer:
            assert (answer.status, answer.headers["Connection"]) == (503, "close")
        endpoint.leads = True
        async with http.post(url, data=body, headers=headers) as answer:
            assert (answer.status, answer.headers.get("Connection")) == (204, None)
    await runner.cleanup()
    assert len(endpoint.looked) == 1


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b" " * (1024**2 + 1), 413)])
async def test_senseless_and_endless_bodies_are_refused(
    endpoint: Endpoint, unused_tcp_port: int, body: bytes, status: int
) -> None:
    assert await send(endpoint, unused_tcp_port, body) == status
    assert endpoint.looked == []


async def test_a_body_that_is_not_packed_as_it_says_is_refused(
    endpoint: Endpoint, unused_tcp_port: int
) -> None:
    headers = {"Authorization": "Bearer right", "Content-Encoding": "gzip"}
    assert await send(endpoint, unused_tcp_port, b"no gzip", headers) == 400
    assert endpoint.told == ["malformed"]


@pytest.mark.parametrize("start", [b"", b"POST /alerts HTTP/1.1\r\nHo"])
async def test_a_connection_that_asks_nothing_is_closed(
    endpoint: Endpoint, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(health, "IDLE_SECONDS", 0.1)
    for serving in (
        endpoint.webhook.serve(unused_tcp_port),
        health.serve(lambda: None, lambda: b"", unused_tcp_port),
    ):
        runner = await serving
        reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
        writer.write(start)
        assert await reader.read() == b""
        writer.close()
        await runner.cleanup()
