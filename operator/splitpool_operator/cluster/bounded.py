"""How is a server of somebody else's asked without waiting or reading for ever?

Limits of a socket hold for one packet each: a server that sends a byte now and then would keep
a thread for days, in its headers too. So all connections are shut when their time is up.
"""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.retry import Retry

_CHUNK = 64 * 1024


class TooMuch(requests.RequestException):
    """The answer is larger, or takes longer, than any answer should."""


class Bounded(requests.Session):
    """A session that lasts for some seconds, follows no redirect and reads so many bytes at most.

    Whatever it does then, also within a request, ends in TooMuch. Use it as a context.
    """

    def __init__(self, *, seconds: float, most_bytes: int) -> None:
        super().__init__()
        self.trust_env = False
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._over = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._ends = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._adapter = _Watched(self._opened)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def close(self) -> None:
        """Also stops the clock."""
        self._timer.cancel()
        self._adapter.close()
        super().close()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def get_adapter(self, url: str | bytes) -> HTTPAdapter:
        """Always the one whose connections are known here."""
        return self._adapter

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """One request, read to its end here."""
        try:
            response = super().send(request, **options | {"stream": True, "allow_redirects": False})
            response._content = self._read(response)
        except (requests.RequestException, OSError, ValueError):
            if not self._over:
                raise
            raise self._late() from None
        return response

    def _read(self, response: requests.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_content(_CHUNK):
            body += chunk
            if len(body) > self._most_bytes:
                raise TooMuch(f"an answer of more than {self._most_bytes} bytes")
            if time.monotonic() > self._ends:
                raise self._late()
        # A body without a length ends where its connection is shut.
        if self._over:
            raise self._late()
        return bytes(body)

    def _late(self) -> TooMuch:
        return TooMuch(f"no answer to all questions within {self._seconds:g} s")

    def _opened(self, opened: socket.socket) -> None:
        with self._lock:
            # Its own handle: TLS takes the socket's.
            self._sockets.append(opened.dup())
        if self._over:
            self._end()

    def _end(self) -> None:
        self._over = True
        with self._lock:
            for each in self._sockets:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class _Watched(HTTPAdapter):
    """Tells of every socket that it opens; asks once."""

    def __init__(self, opened: Callable[[socket.socket], None]) -> None:
        # A read that fails keeps its own name so.
        super().__init__(max_retries=Retry(total=0, read=False))
        pools = {"http": _pool(HTTPConnectionPool, HTTPConnection, opened)}
        pools["https"] = _pool(HTTPSConnectionPool, HTTPSConnection, opened)
        self.poolmanager.pool_classes_by_scheme = pools


def _pool(pool: type[Any], connection: type[Any], opened: Callable[[socket.socket], None]) -> Any:
    def connect(self: Any) -> socket.socket:
        found: socket.socket = connection._new_conn(self)
        opened(found)
        return found

    known = type(connection.__name__, (connection,), {"_new_conn": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": known})
