"""What was last seen of a kind: changes that matter wake, those that do not do not."""

from typing import Any

import pytest

from fakes.router_rig import pool_object
from splitpool_router.cluster.discovery import ClusterDiscovery, Kept
from splitpool_router.fleet.discovery import NoSnapshot
from splitpool_router.fleet.pools import Pool, from_object


class Seen:
    """Pools, and how often something was told."""

    def __init__(self) -> None:
        self.told = 0
        self.kept = Kept[Pool](read, self._tell)

    def _tell(self) -> None:
        self.told += 1

    @property
    def models(self) -> dict[str, str]:
        return {name: pool.model for (_, name), pool in self.kept.values.items()}


def read(manifest: Any) -> Pool | None:
    return None if manifest["metadata"].get("deletionTimestamp") else from_object(manifest)


def pool(name: str = "a", model: str = "m", version: int = 1, **metadata: Any) -> dict[str, Any]:
    made = pool_object(name, model)
    made["metadata"] |= {"resourceVersion": str(version), **metadata}
    return made


def test_a_listing_replaces_everything() -> None:
    seen = Seen()
    seen.kept.replace([pool("a"), pool("b")])
    seen.kept.replace([pool("b", "other", version=2), pool("c")])
    assert seen.models == {"b": "other", "c": "m"}
    assert seen.told == 2


def test_a_change_of_what_is_read_wakes_and_another_does_not() -> None:
    seen = Seen()
    seen.kept.put(pool(version=1))
    seen.kept.put({**pool(version=2), "status": {"conditions": []}})
    assert seen.told == 1
    seen.kept.put(pool(model="other", version=3))
    assert (seen.told, seen.models) == (2, {"a": "other"})


def test_what_is_gone_and_what_is_being_deleted_is_no_longer_there() -> None:
    seen = Seen()
    seen.kept.replace([pool("a"), pool("b")])
    seen.kept.drop(pool("a"))
    seen.kept.put(pool("b", version=2, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert seen.models == {}
    assert seen.told == 3
    seen.kept.drop(pool("b"))
    assert seen.told == 3


def test_one_that_comes_again_is_read_again() -> None:
    seen = Seen()
    seen.kept.put(pool(version=1))
    seen.kept.drop(pool(version=1))
    seen.kept.put(pool(version=1))
    assert seen.models == {"a": "m"}


def test_what_cannot_be_read_leaves_what_was_read_before_and_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Seen()
    seen.kept.put(pool())
    broken = pool(version=2)
    del broken["spec"]["model"]
    seen.kept.put(broken)
    assert (seen.models, seen.told) == ({"a": "m"}, 1)
    assert "default/a is not understood: spec.model: Field required" in caplog.text


async def test_until_everything_was_listed_once_there_is_no_snapshot() -> None:
    def connect() -> Any:
        raise AssertionError

    discovery = ClusterDiscovery(["team-a"], connect=connect)
    with pytest.raises(NoSnapshot, match="inferencepools of team-a, endpointslices of team-a"):
        await discovery.read()
    assert discovery.age() is None
