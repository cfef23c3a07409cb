"""Which workers does the router of this machine know? The endpoints file, replaced as a whole."""

import json
import os
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from splitpool_operator.planning.plan import Plan, WorkerPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One run of one worker; another run has another uid."""

    pool: str
    namespace: str
    name: str
    classes: tuple[str, ...]
    url: str
    uid: str
    terminating: bool = False


class EndpointsFile:
    """The pools and their running workers, on disk for the router to poll.

    Every change raises OSError where the file cannot be written; `write` makes up for it.
    """

    def __init__(self, path: Path, pools: list[dict[str, Any]]) -> None:
        self._path = path
        self._pools = pools
        self._generation = 0
        self._endpoints: dict[str, Endpoint] = {}
        self.write()

    def put(self, plan: Plan, worker: WorkerPlan, url: str) -> None:
        """List a new run of a worker."""
        namespace, pool = plan.pool.key
        self._endpoints[worker.name] = Endpoint(
            pool=pool,
            namespace=namespace,
            name=worker.name,
            classes=worker.classes,
            url=url,
            uid=secrets.token_hex(8),
        )
        self.write()

    def remove(self, name: str) -> None:
        """A run has ended."""
        if self._endpoints.pop(name, None) is not None:
            self.write()

    def terminate(self) -> None:
        """Every run is told to end: the router sends them nothing new."""
        self._endpoints = {
            name: replace(endpoint, terminating=True) for name, endpoint in self._endpoints.items()
        }
        self.write()

    def write(self) -> None:
        """By rename, so that a reader sees one whole generation or the next."""
        self._generation += 1
        workers = [_as_json(endpoint) for endpoint in self._endpoints.values()]
        content = {"generation": self._generation, "pools": self._pools, "workers": workers}
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(fresh, self._path)


def _as_json(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "pool": endpoint.pool,
        "namespace": endpoint.namespace,
        "name": endpoint.name,
        "classes": list(endpoint.classes),
        "url": endpoint.url,
        "uid": endpoint.uid,
        "terminating": endpoint.terminating,
    }
