"""Pools and snapshots from an endpoints file: defaults, conflicts, broken files."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fakes.router_rig import pool_object
from splitpool_router.fleet.discovery import FileDiscovery, NoSnapshot, parse
from splitpool_router.fleet.pools import Pool, from_object, serving
from splitpool_router.placing.classify import LatencyClass

INTERACTIVE, BATCH = LatencyClass.INTERACTIVE, LatencyClass.BATCH


def pool(created: str | None = None, **fields: Any) -> Pool:
    manifest = pool_object(**fields)
    if created is not None:
        manifest["metadata"]["creationTimestamp"] = created
    return from_object(manifest)


def test_a_minimal_object_gets_the_declared_defaults() -> None:
    bare = {
        "metadata": {"name": "a"},
        "spec": {"model": {"name": "m"}, "pools": {"interactive": {}, "batch": {}}},
    }
    got = from_object(bare)
    assert got.classes[INTERACTIVE].ttft_p99_ms == 500
    assert got.classes[BATCH].ttft_p99_ms is None
    assert got.classes[INTERACTIVE].queue_timeout_seconds == 10
    assert got.classes[BATCH].queue_timeout_seconds == 600
    assert got.resume_window == 30
    assert got.default_class is INTERACTIVE
    assert not got.spill_to_batch


def test_objectives_name_classes() -> None:
    got = pool(pools={"batch": {"objective": "nightly"}})
    assert got.objectives == {"nightly": BATCH}


def test_of_two_pools_with_one_model_name_the_older_serves() -> None:
    young = pool(name="a", created="2026-02-01T00:00:00Z")
    old = pool(name="b", created="2026-01-01T00:00:00Z")
    assert serving([young, old])["tiny"] is old
    assert serving([old, young])["tiny"] is old


def test_pools_of_one_age_are_ordered_by_name() -> None:
    assert serving([pool(name="b"), pool(name="a")])["tiny"].key.name == "a"


def test_a_class_of_zero_replicas_can_have_workers_only_by_autoscaling() -> None:
    none: dict[str, Any] = {"pools": {"batch": {"replicas": 0}}}
    assert BATCH not in pool(**none).can_have_workers
    asleep = pool(**none, autoscaling={"mode": "Managed", "batch": {"maxReplicas": 2}})
    assert BATCH in asleep.can_have_workers
    off = pool(**none, autoscaling={"mode": "Off", "batch": {"maxReplicas": 2}})
    assert BATCH not in off.can_have_workers


def test_in_shared_the_interactive_replicas_serve_both_classes() -> None:
    got = pool(topology="Shared", pools={"batch": {"replicas": 0}})
    assert got.can_have_workers == {INTERACTIVE, BATCH}


def content(**fields: Any) -> bytes:
    return json.dumps({"generation": 3, "pools": [pool_object()], "workers": [], **fields}).encode()


def test_a_snapshot_holds_pools_and_workers() -> None:
    line = {"pool": "assistant", "name": "w", "classes": ["batch"], "url": "http://x", "uid": "1"}
    snapshot = parse(content(workers=[line]))
    assert snapshot.generation == 3
    assert [pool.model for pool in snapshot.pools] == ["tiny"]
    assert snapshot.workers[0].classes == {BATCH}


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b"[]", b"\xff", content(pools=[{}]), content(workers=[{"name": "w"}])],
)
def test_a_broken_file_is_no_snapshot(broken: bytes) -> None:
    with pytest.raises(NoSnapshot, match="endpoints file"):
        parse(broken)


async def test_a_file_is_read_again_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    discovery = FileDiscovery(path, sleep=lambda seconds: asyncio.sleep(0))
    with pytest.raises(NoSnapshot, match="No such file"):
        await discovery.read()
    waiting = asyncio.create_task(discovery.changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    (tmp_path / "draft").write_bytes(content())
    os.replace(tmp_path / "draft", path)
    await waiting
    assert (await discovery.read()).generation == 3
