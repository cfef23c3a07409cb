"""How a router is started: where it finds its pools, and what is refused."""

import math
from pathlib import Path

import pytest

from splitpool_router.config import BadConfig, Config, parse


def parsed(*argv: str) -> Config:
    return parse(argv, {})


def test_pools_come_from_a_file_or_from_a_cluster() -> None:
    assert parsed("--endpoints", "x").endpoints == Path("x")
    assert parsed("--cluster").endpoints is None
    assert parsed("--cluster").namespaces == ()
    given = parsed("--cluster", "--namespace", "a", "--namespace", "b", "--namespace", "a")
    assert given.namespaces == ("a", "b")


@pytest.mark.parametrize("argv", [(), ("--cluster", "--endpoints", "x"), ("--namespace", "a")])
def test_one_source_is_named_and_only_one(argv: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*argv)
    assert ended.value.code == 2


def test_a_namespace_is_one_of_a_cluster() -> None:
    with pytest.raises(BadConfig, match="give --cluster with it"):
        parsed("--endpoints", "x", "--namespace", "a")


def test_draining_is_limited_by_the_pools_unless_a_limit_is_given() -> None:
    assert parsed("--cluster").drain_limit == math.inf
    assert parsed("--cluster", "--drain-seconds", "30").drain_limit == 30


@pytest.mark.parametrize("bad", ["-1", "nan"])
def test_a_drain_limit_is_a_duration(bad: str) -> None:
    with pytest.raises(BadConfig, match="--drain-seconds"):
        parsed("--cluster", f"--drain-seconds={bad}")
