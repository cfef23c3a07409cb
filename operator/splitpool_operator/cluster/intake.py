"""What does a change in the cluster mean: what is remembered, and which pools are looked at?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from splitpool_operator.cluster.kinds import POOL, Kind
from splitpool_operator.cluster.store import Key, Store, model_of, pool_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Takes every event of every watch."""

    store: Store
    enqueue: Callable[[Key], None]
    # A watch began anew with a listing, which tells of no deletion.
    relisted: Callable[[], None]

    def take(self, kind: Kind, event: str | None, seen: dict[str, Any]) -> None:
        """One object as a watch shows it; event is None for what a listing found."""
        before = self._known_model(kind, seen)
        if event is None:
            self.relisted()
        if event == "DELETED":
            self.store.drop(kind, seen)
        elif not self.store.put(kind, seen):
            return
        pool = pool_of(kind, seen)
        if pool is not None:
            self.enqueue(pool)
        if kind is POOL:
            self._tell_rivals({before, model_of(seen)})

    def _known_model(self, kind: Kind, seen: dict[str, Any]) -> str:
        if kind is not POOL:
            return ""
        metadata = seen["metadata"]
        known = self.store.pool((metadata["namespace"], metadata["name"]))
        return model_of(known) if known else ""

    def _tell_rivals(self, models: set[str]) -> None:
        """Who may serve a model's name depends on who else does."""
        for model in models - {""}:
            for rival in self.store.serving(model):
                metadata = rival["metadata"]
                self.enqueue((metadata["namespace"], metadata["name"]))
