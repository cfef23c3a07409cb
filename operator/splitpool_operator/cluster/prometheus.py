"""Asks Prometheus: the only module that knows its client.

The client is synchronous, so it runs in a thread. A pool may name any URL, hence the limits on
time and bytes, no redirects, and a token for the operator's own Prometheus only.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from splitpool_operator.autoscaling.queries import queries
from splitpool_operator.autoscaling.readings import Owner, Unreadable, read
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.cluster.bounded import Bounded, TooMuch

# Every pool of one Prometheus is served by one reading.
_FRESH_SECONDS = 10.0
_CONNECT_SECONDS, _READ_SECONDS = 2.0, 5.0
_DEADLINE_SECONDS = 15.0
# For what no deadline reaches: a thread that is not free, the resolution of a name.
_GRACE_SECONDS = 1.0
_MOST_BYTES = 16 * 1024**2
_THREADS = 16

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The operator's own Prometheus, for pools that name none."""

    url: str
    token_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one Prometheus said, or why it said nothing."""

    signals: Mapping[Owner, Signals] = field(default_factory=dict)
    trouble: str | None = None


class Prometheus:
    """Reads all signals of a Prometheus at once, and not again while they are fresh."""

    def __init__(
        self,
        pace: Pace,
        source: Source | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        told: Told = lambda result: None,
    ) -> None:
        self._queries = queries(pace)
        self._pace = pace
        self._source = source
        self._fresh = min(_FRESH_SECONDS, pace.look / 2)
        self._clock = clock
        self._told = told
        self._known: dict[str, tuple[float, Reading]] = {}
        self._asking: dict[str, asyncio.Future[Reading]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="prometheus")
        # The operator's own waits for none that pools name.
        self._own = ThreadPoolExecutor(1, thread_name_prefix="own-prometheus")

    @property
    def has_source(self) -> bool:
        """Whether pools that name no Prometheus are measured too."""
        return self._source is not None

    async def reading(self, url: str | None) -> Reading:
        """What is known now, from a pool's own Prometheus or the operator's; never raises."""
        url = url or (self._source.url if self._source else None)
        if url is None:
            text = "neither spec.autoscaling.prometheus.url nor the operator's --prometheus-url"
            return Reading(trouble=f"{text} says where signals are")
        at, known = self._known.get(url, (0.0, None))
        if known is not None and self._clock() - at < self._fresh:
            return known
        if url not in self._asking:
            loop = asyncio.get_running_loop()
            own = self._source is not None and url == self._source.url
            asking = loop.run_in_executor(self._own if own else self._threads, self._ask, url)
            asking.add_done_callback(lambda done: self._asked(url, done))
            self._asking[url] = asking
        done, _ = await asyncio.wait(
            (self._asking[url],), timeout=_DEADLINE_SECONDS + _GRACE_SECONDS
        )
        return done.pop().result() if done else Reading(trouble=f"{_shown(url)} does not answer")

    def expire(self) -> None:
        """News: whoever asks next asks anew."""
        self._known.clear()

    def close(self) -> None:
        """Wait for nobody."""
        for each in (self._own, self._threads):
            each.shutdown(wait=False, cancel_futures=True)

    def _asked(self, url: str, done: asyncio.Future[Reading]) -> None:
        del self._asking[url]
        if done.cancelled() or done.exception():
            return
        self._told("failed" if done.result().trouble else "done")
        now = self._clock()
        self._known = {
            other: (at, reading)
            for other, (at, reading) in self._known.items()
            if now - at < self._fresh
        }
        self._known[url] = now, done.result()

    def _ask(self, url: str) -> Reading:
        """In a thread."""
        try:
            with Bounded(seconds=_DEADLINE_SECONDS, most_bytes=_MOST_BYTES) as session:
                client = PrometheusConnect(
                    url=url.rstrip("/"),
                    headers=self._headers(url),
                    session=session,
                    timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                )
                answers = {name: client.custom_query(text) for name, text in self._queries.items()}
            return Reading(signals=read(answers, self._pace))
        except (requests.RequestException, PrometheusApiClientException, OSError) as error:
            return Reading(trouble=f"{_shown(url)} cannot be asked: {_why(error)}")
        except (Unreadable, ValueError, KeyError, TypeError, RecursionError):
            return Reading(trouble=f"{_shown(url)} does not answer as Prometheus does")

    def _headers(self, url: str) -> dict[str, str]:
        own = self._source
        if own is None or own.token_file is None or url != own.url:
            return {}
        return {"Authorization": f"Bearer {own.token_file.read_text().strip()}"}


def _shown(url: str) -> str:
    """Without name and password: whoever may read a pool reads its conditions."""
    return re.sub(r"^(https?://)[^/?#]*@", r"\1", url)


def _why(error: Exception) -> str:
    """In words that stay the same while the trouble does: a condition quotes them."""
    match error:
        case TooMuch():
            return str(error)
        case requests.Timeout():
            return "it does not answer in time"
        case requests.ConnectionError():
            return "no connection"
        case PrometheusApiClientException():
            return str(error).partition(" (")[0]
        case _:
            return type(error).__name__
