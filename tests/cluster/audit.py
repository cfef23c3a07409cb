"""Who did what to the API server? Reads its audit log, which it writes before it answers."""

import json
import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

# The API server answers once an entry is written; others may be halfway.
_LINE_SECONDS = 10.0
_POLL_SECONDS = 0.01
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

# Each request once, when it is answered (a watch: when it starts), without bodies.
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/metrics*"]
  - level: Metadata
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request: who, which verb, on what, and the HTTP status of the answer.

    `denied`: whether rights were missing, and not, say, a namespace was on its way out.
    """

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    agent: str
    denied: bool

    @property
    def is_write(self) -> bool:
        """Whether it could change something."""
        return self.verb in WRITES


class AuditLog:
    """Requests since a moment: `mark`, do something, then `entries`."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def mark(self) -> int:
        """This moment, between two entries. Raises TimeoutError."""
        if not self._file.exists():
            return 0
        with self._file.open("rb") as log:
            if log.seek(0, os.SEEK_END):
                log.seek(-1, os.SEEK_END)
                _whole(log.read(), log)
            return log.tell()

    def entries(
        self, since: int = 0, *, user: str | None = None, verbs: Collection[str] | None = None
    ) -> list[Entry]:
        """The requests since a mark, oldest first, of a user and of some verbs if they are given.

        A user is named in full, as in system:serviceaccount:NAMESPACE:NAME.
        """
        return [
            entry
            for entry in self._read(since)
            if user in (None, entry.user) and (verbs is None or entry.verb in verbs)
        ]

    def writes(self, since: int = 0, *, user: str | None = None) -> list[Entry]:
        """The requests that could change something."""
        return self.entries(since, user=user, verbs=WRITES)

    def denied(self, since: int = 0, *, user: str | None = None) -> list[Entry]:
        """The requests that RBAC refused."""
        return [entry for entry in self.entries(since, user=user) if entry.denied]

    def _read(self, since: int) -> Iterator[Entry]:
        with self._file.open("rb") as log:
            log.seek(since)
            for line in log:
                # A watch is logged when it starts and once more when it ends.
                raw = json.loads(_whole(line, log))
                if raw["verb"] != "watch" or raw["stage"] == "ResponseStarted":
                    yield _entry(raw)


def _whole(line: bytes, log: IO[bytes]) -> bytes:
    """A line to its end, which may be on its way. Raises TimeoutError."""
    deadline = time.monotonic() + _LINE_SECONDS
    while not line.endswith(b"\n"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"half an entry of the audit log: {line[-200:]!r}")
        time.sleep(_POLL_SECONDS)
        line += log.readline()
    return line


def _entry(raw: dict[str, Any]) -> Entry:
    target = raw.get("objectRef", {})
    acting = raw.get("impersonatedUser") or raw["user"]
    answer = raw.get("responseStatus", {})
    return Entry(
        user=acting.get("username", ""),
        verb=raw["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=answer.get("code", 0),
        agent=raw.get("userAgent", ""),
        denied=_denied(raw, answer),
    )


def _denied(raw: dict[str, Any], answer: dict[str, Any]) -> bool:
    """An apply that would create is allowed as a patch, and refused in words alone."""
    decision = raw.get("annotations", {}).get("authorization.k8s.io/decision")
    in_words = answer.get("code") == 403 and " cannot " in answer.get("message", "")
    return decision == "forbid" or in_words
