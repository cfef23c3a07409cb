"""What local mode refuses before anything starts."""

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.local_rig import SMALL, Up, prepared
from splitpool_operator.local import up as local
from splitpool_operator.local.options import Options
from splitpool_operator.local.refusals import Refused
from splitpool_operator.planning.plan import plan
from unit.pool_files import CPU, pool


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    async with prepared(tmp_path, monkeypatch) as rig:
        yield rig


def refusal(options: Options, changes: dict[str, Any] | None = None) -> Refused:
    made = [plan(pool(CPU, SMALL | (changes or {})), cores=2)]
    with pytest.raises(Refused) as refused:
        local.check(made, options)
    return refused.value


async def test_a_taken_port_is_refused_before_anything_starts(up: Up) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        refused = refusal(replace(up.options, port=port))
    assert refused.code == 5
    assert str(port) in str(refused)
    assert up.told("start") == []


async def test_a_missing_model_is_refused_before_anything_starts(up: Up) -> None:
    up.behave(inspect={"exit": 4, "error": {"message": "no such file"}})
    refused = refusal(up.options)
    assert refused.code == 4
    assert "file:///models/smollm2.gguf: no such file" in str(refused)


async def test_a_quota_that_is_too_small_is_refused_before_anything_starts(up: Up) -> None:
    refused = refusal(up.options, {"spec.pools.interactive.vram": "300Mi"})
    assert refused.code == 3
    assert "spec.pools.interactive.vram: 300Mi is too small" in str(refused)


async def test_more_memory_than_is_free_is_refused_before_anything_starts(up: Up) -> None:
    huge = {"spec.accelerator.memory": "900Ti", "spec.pools.batch.vram": "800Ti"}
    refused = refusal(up.options, huge)
    assert refused.code == 3
    assert "800Ti" in str(refused)


async def test_a_folder_that_cannot_be_written_is_refused(up: Up, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    for options in (
        replace(up.options, log_dir=occupied / "logs"),
        replace(up.options, state_dir=occupied),
    ):
        refused = refusal(options)
        assert refused.code == 6
        assert str(occupied) in str(refused)


async def test_a_pool_without_workers_is_refused(up: Up) -> None:
    none = {f"spec.pools.{name}.replicas": 0 for name in ("interactive", "batch")}
    assert "nothing to run" in str(refusal(up.options, none))


async def test_two_pools_of_one_name_are_refused_though_a_cluster_would_take_them(up: Up) -> None:
    other = {"metadata.namespace": "other", "spec.model.name": "other"}
    made = [plan(pool(CPU, changes), cores=2) for changes in ({}, other)]
    with pytest.raises(Refused, match="rename one of them"):
        local.check(made, up.options)


async def test_a_model_that_is_elsewhere_is_refused(up: Up) -> None:
    refused = refusal(up.options, {"spec.model.source": "pvc://models/x"})
    assert refused.code == 4
