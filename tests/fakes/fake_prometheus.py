"""A Prometheus that answers the operator's queries with the figures that a test gives it."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from splitpool_operator.autoscaling.queries import OWNER, queries, step_seconds
from splitpool_operator.autoscaling.state import Pace

Owner = tuple[str, str, str]
# What a router that has nothing to do exports.
IDLE = {"age": 1.0, "waiting": 0.0, "running": 0.0, "backlog": 0.0}


class FakePrometheus:
    """Figures by the name of the query and the class they are of; all else is absent."""

    def __init__(self, pace: Pace) -> None:
        self._names = {text: name for name, text in queries(pace).items()}
        self._steps = pace.quiet / step_seconds(pace)
        self.figures: dict[Owner, dict[str, Any]] = {}
        self.asked = 0
        self.headers: dict[str, str] = {}
        # In place of what it would answer; `hangs` until the test ends.
        self.status = 200
        self.body: bytes | None = None
        self.location = ""
        self.slow_seconds = 0.0
        self.over = threading.Event()
        self.url = ""

    def tell(self, owner: Owner, **figures: Any) -> None:
        """What is measured of a class from now on, measured without a gap."""
        self.figures[owner] = {"observed": self._steps} | IDLE | figures

    def answer(self, query: str) -> bytes:
        """The body of an answer, as the HTTP API has it. Raises KeyError for an unknown query."""
        name = self._names[query]
        vector = [
            {
                "metric": dict(zip(OWNER, owner, strict=True)),
                "value": [time.time(), str(figures[name])],
            }
            for owner, figures in self.figures.items()
            if name in figures
        ]
        return json.dumps(
            {"status": "success", "data": {"resultType": "vector", "result": vector}}
        ).encode()


@contextmanager
def prometheus(pace: Pace) -> Iterator[FakePrometheus]:
    """One that listens on loopback until the block is left."""
    fake = FakePrometheus(pace)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked += 1
            fake.headers = dict(self.headers)
            fake.over.wait(fake.slow_seconds)
            (query,) = parse_qs(urlsplit(self.path).query)["query"]
            body = fake.answer(query) if fake.body is None else fake.body
            self.send_response(fake.status)
            if fake.location:
                self.send_header("Location", fake.location)
            self.send_header("Content-Length", str(len(body)))
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        fake.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
