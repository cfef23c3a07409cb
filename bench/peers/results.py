"""What was measured so far? One JSON file a measurement, so that a run can be taken up again."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.workloads import Workload

PLAN = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    """A measurement: one workload, one server, one repeat from 0."""

    workload: Workload
    repeat: int
    server: str

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.workload}.{self.repeat}.{self.server}.json"


class Results:
    """A folder of measurements."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def has(self, key: Key, rate: float) -> bool:
        """Whether it was measured, at that rate of arrivals."""
        try:
            found = json.loads((self.folder / key.file).read_text())
        except FileNotFoundError:
            return False
        return bool(found["rate"] == rate)

    def write(self, key: Key, document: dict[str, Any]) -> None:
        """Keep a measurement; a file is whole or not there."""
        written = document | {
            "workload": key.workload,
            "repeat": key.repeat,
            "server": key.server,
        }
        self._put(key.file, written)

    def forget(self, key: Key) -> None:
        """Measure it again."""
        (self.folder / key.file).unlink(missing_ok=True)

    def plan(self) -> dict[str, Any]:
        """What the whole run shares, such as the rate of W4 and W5; empty before it is known."""
        try:
            found: dict[str, Any] = json.loads((self.folder / PLAN).read_text())
        except FileNotFoundError:
            return {}
        return found

    def set_plan(self, plan: dict[str, Any]) -> None:
        """Keep it."""
        self._put(PLAN, plan)

    def all(self) -> list[dict[str, Any]]:
        """Every measurement."""
        return [json.loads(path.read_text()) for path in self._files()]

    def _files(self) -> Iterator[Path]:
        return (path for path in sorted(self.folder.glob("W*.json")))

    def _put(self, name: str, document: dict[str, Any]) -> None:
        part = self.folder / f"{name}.part"
        part.write_text(json.dumps(document, indent=1) + "\n")
        part.replace(self.folder / name)
