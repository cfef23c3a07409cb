"""The edge towards clients: bytes, framing, sizes, methods, credentials."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fakes.fake_worker import FakeWorker
from fakes.router_rig import CHAT, Rig, chat, pool_object, rig, until
from fakes.scripted_answers import Script
from splitpool_router.config import MAX_BODY_BYTES


async def raw(router: Rig, data: bytes, *, until_seen: bytes | None = None) -> bytes:
    """What the router answers to these bytes, to the end or until something is seen."""
    where = urlsplit(router.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        writer.write(data)
        async with asyncio.timeout(10):
            return await (reader.readuntil(until_seen) if until_seen else reader.read())
    finally:
        writer.close()


def request(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {CHAT} HTTP/{version}", "Host: x", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_body_reaches_the_worker_byte_for_byte(tmp_path: Path) -> None:
    worker = FakeWorker()
    body = b'{ "model":"tiny",\t"messages": [], "unknown":1e3, "x": "\\u00e4\xc3\xa4" }\n'
    async with rig(tmp_path, worker) as router:
        assert (await router.post(body))[0] == 200
        assert worker.completions()[0].body == body
        assert worker.completions()[0].headers["content-length"] == str(len(body))


async def test_no_credential_of_a_client_reaches_a_worker(tmp_path: Path) -> None:
    worker = FakeWorker(token="inner")
    secrets = {
        "Authorization": "Bearer sk-secret",
        "Cookie": "session=secret",
        "X-Api-Key": "secret",
        "X-Splitpool-Token": "secret",
        "X-Splitpool-Caller": "secret",
        "Proxy-Authorization": "secret",
    }
    async with rig(tmp_path, worker, internal_token="inner") as router:
        assert (await router.post(chat(), headers=secrets))[0] == 200
        seen = worker.completions()[0].headers
        assert "secret" not in json.dumps(seen)
        assert seen["x-splitpool-token"] == "inner"
        assert len(seen["x-splitpool-caller"]) == 32


async def test_a_pool_may_forward_a_header(tmp_path: Path) -> None:
    worker = FakeWorker()
    pool = pool_object(routing={"forwardHeaders": ["Authorization"]})
    async with rig(tmp_path, worker, pools=[pool]) as router:
        await router.post(chat(), headers={"Authorization": "Bearer x", "Cookie": "c"})
        seen = worker.completions()[0].headers
        assert seen["authorization"] == "Bearer x"
        assert "cookie" not in seen


async def test_a_worker_does_not_show_itself_to_the_client(tmp_path: Path) -> None:
    async with rig(tmp_path, FakeWorker()) as router:
        _, response, _ = await router.post(chat())
        assert response.headers["Server"] == "splitpool"
        assert "Server-Timing" not in response.headers


async def test_a_clients_request_id_is_kept_and_one_of_bad_shape_replaced(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        _, response, _ = await router.post(chat(), headers={"X-Request-Id": "mine-1"})
        assert response.headers["X-Request-Id"] == "mine-1"
        _, response, _ = await router.post(chat(), headers={"X-Request-Id": "a b"})
        assert len(response.headers["X-Request-Id"]) == 32
        sent = [seen.headers["x-request-id"] for seen in worker.completions()]
        assert sent == ["mine-1", response.headers["X-Request-Id"]]


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: +5",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: xchunked",),
        ("Content-Length : 5",),
    ],
)
async def test_a_request_of_two_framings_or_a_broken_one_is_refused(
    tmp_path: Path, headers: tuple[str, ...]
) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        answer = await raw(router, request(b"0\r\n\r\nGET /x HTTP/1.1\r\n\r\n", *headers))
        assert answer.startswith(b"HTTP/1.0 400")
        assert answer.count(b"HTTP/1.") == 1
        assert (await router.post(chat()))[0] == 200
        assert len(worker.completions()) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\xfe garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"b" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_garbage_is_answered_with_400_and_the_router_lives_on(
    tmp_path: Path, data: bytes
) -> None:
    async with rig(tmp_path) as router:
        answer = await raw(router, data)
        assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        assert (await router.get("/health"))[0] == 200


async def test_a_chunked_request_body_is_served_with_one_framing(tmp_path: Path) -> None:
    worker = FakeWorker()
    body = json.dumps(chat()).encode()
    framed = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    async with rig(tmp_path, worker) as router:
        answer = await raw(router, request(framed, "Transfer-Encoding: chunked"))
        assert answer.startswith(b"HTTP/1.1 200")
        seen = worker.completions()[0]
        assert seen.body == body
        assert "transfer-encoding" not in seen.headers


async def test_an_http_1_0_client_gets_a_stream_without_chunks(tmp_path: Path) -> None:
    body = json.dumps(chat(stream=True)).encode()
    async with rig(tmp_path, FakeWorker()) as router:
        length = f"Content-Length: {len(body)}"
        head, _, rest = (await raw(router, request(body, length, version="1.0"))).partition(
            b"\r\n\r\n"
        )
        assert b"Transfer-Encoding" not in head
        assert rest.startswith(b"id: 0\n")
        assert rest.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b'{"model": "tiny", "messages": "\xff"}', "UTF-8"),
        (b"[1]", "object"),
        (b"[" * 200_000, "nested"),
        (b'{"model": "tiny", "seed": %s}' % (b"9" * 5000), "digits"),
        (b'{"model": 1}', "model"),
    ],
)
async def test_a_broken_body_is_400_and_says_why(tmp_path: Path, body: bytes, word: str) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        got, _, answer = await router.post(body)
        assert got == 400
        assert word in answer["error"]["message"]
        assert worker.completions() == []
        assert await router.total("requests_total", code="400", reason="invalid_request") == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_body_that_is_not_coded_as_it_says_is_400(tmp_path: Path, coding: str) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        headers = ("Content-Length: 11", f"Content-Encoding: {coding}")
        answer = await raw(router, request(b"plain bytes", *headers))
        assert answer.startswith(b"HTTP/1.1 400")
        assert coding.encode() in answer
        assert worker.completions() == []


async def test_a_body_over_the_limit_is_413_before_it_is_sent(tmp_path: Path) -> None:
    async with rig(tmp_path) as router:
        asked = request(b"", f"Content-Length: {MAX_BODY_BYTES + 1}")
        answer = await raw(router, asked, until_seen=b"}}")
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"body_too_large" in answer


async def test_a_chunked_body_over_the_limit_is_413(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**20 + 1):
            yield b" " * 2**20

    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        async with router.client.post(router.url + CHAT, data=endless()) as response:
            assert response.status == 413
        assert worker.completions() == []
        await until(lambda: router.router._parts.intake.held == 0)


async def test_bodies_are_bounded_together_and_counted_down_again(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        intake = router.router._parts.intake
        worker.script = Script(hold_after_events=1)
        async with router.stream():
            await worker.held.wait()
            assert 0 < intake.held < 1000
            intake._total_limit = intake.held + 200
            got, _, body = await router.post(chat("x" * 1000))
            assert (got, body["error"]["code"]) == (429, "queue_full")
            worker.script = Script()
            assert (await router.post(chat()))[0] == 200
        await until(lambda: intake.held == 0)


async def test_a_body_that_never_comes_is_408(tmp_path: Path) -> None:
    async with rig(tmp_path, upload_limit=0.1) as router:
        answer = await raw(router, request(b"{", "Content-Length: 5"), until_seen=b"}}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"request_timeout" in answer


async def test_a_body_of_30_megabytes_is_served(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        big = chat("x" * (30 * 2**20))
        assert (await router.post(big))[0] == 200
        assert len(worker.completions()[0].body) > 30 * 2**20


async def test_wrong_methods_and_paths_are_405_and_404_as_openai_errors(tmp_path: Path) -> None:
    async with rig(tmp_path) as router:
        for method in ("GET", "OPTIONS", "PUT", "DELETE"):
            got, response, body = await router.get(CHAT, method=method)
            assert (got, response.headers["Allow"]) == (405, "POST")
            assert json.loads(body)["error"]["code"] == "method_not_allowed"
        got, _, body = await router.get("/v1/nothing")
        assert (got, json.loads(body)["error"]["code"]) == (404, "not_found")
        got, _, body = await router.get("/v1/models", method="HEAD")
        assert (got, body) == (200, b"")


async def test_a_client_that_never_reads_is_bounded_and_cut(tmp_path: Path) -> None:
    worker, other = FakeWorker(), FakeWorker(name="other")
    tokens = ["t"] * 2000
    async with rig(tmp_path, worker, stall_limit=0.3, sweep_period=0.05) as router:
        worker.script = Script(tokens=tokens, padding=2**16)
        body = json.dumps(chat(stream=True)).encode()
        where = urlsplit(router.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=1024)
        writer.write(request(body, f"Content-Length: {len(body)}"))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            await worker.cut.wait()
        assert worker.written_bytes < 32 * 2**20 < len(tokens) * 2**16
        await until(lambda: not router.router.active)
        worker.script = Script()
        assert (await router.post(chat()))[0] == 200
        writer.close()
    assert other.executions == 0


async def test_a_slow_reader_slows_nobody_else(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(tokens=["t"] * 500, padding=2**16)
        async with router.stream() as slow:
            await slow.content.readuntil(b"\n\n")
            worker.script = Script()
            for number in range(5):
                assert (await router.post(chat(f"{number}")))[0] == 200
            written = worker.written_bytes
            assert written < 500 * 2**16
