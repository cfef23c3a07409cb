"""A hub of models as far as a download asks one: revisions, file lists and files."""

import contextlib
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

COMMIT = "a" * 40
_LISTED = re.compile(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/?]+)")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)")


@dataclass
class Hub:
    """What it holds, what it refuses, and which files it was asked for."""

    url: str = ""
    models: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    # By model: the status and the hub's own code of every answer.
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)


@contextlib.contextmanager
def hub(address: str = "127.0.0.1") -> Iterator[Hub]:
    """A hub until the end of the block, at an address of this machine."""
    state = Hub()

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            status, code, data = _answer_to(state, self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            if code:
                self.send_header("X-Error-Code", code)
            self.end_headers()
            if body:
                self.wfile.write(data)
                state.sent.append(self.path.rpartition("/")[2])

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: requests are not of interest."""

    with http.server.ThreadingHTTPServer((address, 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        state.url = f"http://{address}:{server.server_port}"
        yield state
        server.shutdown()
        thread.join()


def _answer_to(hub: Hub, path: str) -> tuple[int, str, bytes]:
    """Status, the hub's code of an error, and the body."""
    listed, file = _LISTED.match(path), _FILE.match(path)
    asked = listed or file
    model = asked[1] if asked else ""
    if model in hub.refused:
        return *hub.refused[model], b"{}"
    files = hub.models.get(model)
    if files is None:
        return 404, "RepoNotFound", b"{}"
    if file:
        return (200, "", files[file[2]]) if file[2] in files else (404, "EntryNotFound", b"{}")
    if listed and listed[3] not in ("main", COMMIT):
        return 404, "RevisionNotFound", b"{}"
    if listed and listed[2] == "tree":
        entries = [
            {"type": "file", "path": name, "size": len(data), "oid": "b" * 40}
            for name, data in files.items()
        ]
        return 200, "", json.dumps(entries).encode()
    return 200, "", json.dumps({"id": model, "sha": COMMIT, "siblings": []}).encode()
