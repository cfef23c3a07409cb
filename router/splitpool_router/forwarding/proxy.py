"""Calls a worker: the request's own bytes, at most one extra attempt, no total timeout."""

import asyncio
import io
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from splitpool_router.config import Limits
from splitpool_router.errors import WorkerTimeout, WorkerUnreachable
from splitpool_router.fleet.breaker import Verdict, verdict
from splitpool_router.fleet.workers import Worker
from splitpool_router.forwarding.retry import Failure, may_retry, refuses
from splitpool_router.measuring.trip import Trip, clock
from splitpool_router.placing.admission import Permit

# Below the workers' 75 s, so that no request goes out on a connection that is being closed.
_KEEPALIVE = 4.0
_LARGE = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request as a worker gets it."""

    method: str
    path: str  # raw, with its query
    headers: CIMultiDict[str]
    body: bytes | None = None


class AttemptFailed(Exception):
    """A worker gave no head."""

    def __init__(self, failure: Failure, worker: Worker) -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.worker = worker


def session() -> aiohttp.ClientSession:
    """The client side: no cookies, no decompression, no limit on the whole or on connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=_KEEPALIVE),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Content-Type"),
    )


class Proxy:
    """The way to the workers."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def send(
        self, worker: Worker, outgoing: Outgoing, *, limits: Limits, stream: bool = True
    ) -> aiohttp.ClientResponse:
        """The head of the worker's answer; raises AttemptFailed."""
        url = URL(worker.endpoint.url + outgoing.path, encoded=True)
        try:
            async with asyncio.timeout(limits.head(stream=stream)):
                return await self._client.request(
                    outgoing.method,
                    url,
                    headers=outgoing.headers,
                    data=_payload(outgoing.body),
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise AttemptFailed(Failure.NOT_SENT, worker) from error
        except TimeoutError as error:
            raise AttemptFailed(Failure.LATE, worker) from error
        except (aiohttp.ClientError, OSError) as error:
            raise AttemptFailed(Failure.BROKEN, worker) from error

    async def call(
        self, permit: Permit, outgoing: Outgoing, trip: Trip, *, limits: Limits, stream: bool
    ) -> aiohttp.ClientResponse:
        """The answer of the permit's worker, or of one other where the first took no work."""
        attempt = 1
        while True:
            trip.called = clock()
            try:
                answer = await self.send(permit.worker, outgoing, limits=limits, stream=stream)
            except AttemptFailed as failed:
                trip.retry += clock() - trip.called
                permit.report(Verdict.BAD)
                await _elsewhere(failed, permit, trip, attempt=attempt)
            else:
                permit.report(verdict(answer.status))
                if not _goes_elsewhere(answer.status, permit, attempt=attempt):
                    return answer
                answer.close()
                trip.retry += clock() - trip.called
            attempt += 1


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """A large body goes out in pieces, so that it does not hold the loop."""
    return body if body is None or len(body) <= _LARGE else io.BytesIO(body)


def _goes_elsewhere(status: int, permit: Permit, *, attempt: int) -> bool:
    """Whether a refused request has moved to another worker."""
    return refuses(status) and may_retry(Failure.REFUSED, attempt=attempt) and permit.move()


async def _elsewhere(failed: AttemptFailed, permit: Permit, trip: Trip, *, attempt: int) -> None:
    """Moves a request that no worker has seen, waiting for one if need be; else raises."""
    if failed.failure is Failure.NOT_SENT:
        failed.worker.reachable = False
    if not may_retry(failed.failure, attempt=attempt):
        raise refusal(failed)
    if permit.move():
        return
    waiting = clock()
    await permit.wait_again()
    trip.queue += clock() - waiting


def refusal(failed: AttemptFailed) -> WorkerTimeout | WorkerUnreachable:
    """What a client is told when no other attempt is possible."""
    if failed.failure is Failure.LATE:
        return WorkerTimeout("the worker did not start to answer in time")
    text = (
        "the worker could not be reached"
        if failed.failure is Failure.NOT_SENT
        else "the worker closed the connection before it answered"
    )
    return WorkerUnreachable(text, retry_after=1)
