"""Either Helm installs, tests, upgrades, rolls back and removes the chart, and a pool lives on.

The worker is real and goes on through all of it; callers who ask meanwhile lose no answer.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.chart import ChartError
from cluster.doc_blocks import Block, guide
from cluster.helm import CHART, helm, helm3, images
from cluster.releases import NEW_COLUMN, OLD_COLUMN, Helm, columns, left, older_chart
from cluster.shell import Shell
from cluster.watched_pool import WatchedPool
from node.cluster import RealCluster
from node.release import PATIENCE, RELEASE, pods_of, service_url
from node.serving import declare, wait_ready
from node.streaming import DONE, Asked
from node.streams import calling

ON_A_NODE = [each for each in guide() if each.on_a_node]
both_helms = pytest.mark.parametrize("chart", [helm, helm3], ids=["helm4", "helm3"], indirect=True)


@pytest.fixture(scope="module")
def helm4(real: RealCluster, release: str) -> Iterator[Helm]:
    """The one by which the session's release was installed; the release is there afterwards."""
    program = Helm(real.plane, helm(), release, timeout=PATIENCE)
    yield program
    program.install(*images(real.images))


@pytest.fixture
def chart(real: RealCluster, helm4: Helm, request: pytest.FixtureRequest) -> Helm:
    """A Helm by which the release is installed, with nothing but the tests' images."""
    wanted = Helm(real.plane, request.param(sys.stderr), RELEASE, timeout=PATIENCE)
    if request.param is helm3 and installed(helm4):
        helm4("uninstall", RELEASE, *helm4.waiting)
    if not installed(wanted):
        anew = ("--create-namespace", *wanted.waiting, *images(real.images))
        wanted("install", RELEASE, str(CHART), *anew)
    return wanted


@pytest.fixture(scope="module")
def pool(real: RealCluster, release: str) -> Iterator[WatchedPool]:
    """One worker, which outlives releases; pool, namespace and model are called as in the pages."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    labelled = {"name": "team-a", "labels": restricted}
    made = real.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
    found = WatchedPool(real.admin, "team-a")
    declare(found, {"spec.model.name": "llama-3.1-8b-instruct"})
    wait_ready(found)
    yield found
    real.admin.delete(made)


@pytest.mark.parametrize("block", ON_A_NODE, ids=[each.name for each in ON_A_NODE])
def test_commands_of_the_pages_that_need_a_router_or_a_worker(
    real: RealCluster, pool: WatchedPool, block: Block, tmp_path: Path
) -> None:
    status, said = Shell(tmp_path / "shell", real.kubeconfig).type(block)

    assert status == 0, f"{block.text}{said}"
    assert said


@both_helms
def test_a_release_is_tested_upgraded_rolled_back_and_removed_while_a_worker_goes_on(
    real: RealCluster, chart: Helm, pool: WatchedPool, tmp_path: Path
) -> None:
    (worker,) = pool.pods()
    said = chart("test", RELEASE, "--logs", "--timeout", PATIENCE)
    assert f"{pool.namespace}/assistant interactive: 1 answer" in said

    chart.install("--reuse-values", chart=older_chart(tmp_path))
    assert columns(real.admin) == {OLD_COLUMN}
    before = routers(real)
    with calling(real, asked(real, pool)) as callers:
        chart.install("--reuse-values", "--set", "router.accessLog=true")
        assert columns(real.admin) == {NEW_COLUMN}
        assert not before & routers(real)
        assert logs_access(real)

        chart("rollback", RELEASE, *chart.waiting)
        assert columns(real.admin) == {OLD_COLUMN}
        assert not logs_access(real)
        calls = callers.stop()
    assert {each.end for each in calls} == {DONE}

    chart("uninstall", RELEASE, *chart.waiting)
    assert not left(real.admin)
    assert columns(real.admin) == {OLD_COLUMN}
    (kept,) = pool.pods()
    assert kept["metadata"]["uid"] == worker["metadata"]["uid"]
    assert kept["status"]["containerStatuses"] == worker["status"]["containerStatuses"]


def test_a_release_that_comes_back_finds_its_pool(
    real: RealCluster, helm4: Helm, pool: WatchedPool
) -> None:
    (worker,) = pool.pods()
    helm4.install(*images(real.images))

    with calling(real, asked(real, pool)) as callers:
        calls = callers.stop()
    assert {each.end for each in calls} == {DONE}
    pool.patch({"spec": {"pools": {"interactive": {"ttftP99Ms": 30_000}}}})
    wait_ready(pool)
    (kept,) = pool.pods()
    assert kept["metadata"]["uid"] == worker["metadata"]["uid"]


def installed(program: Helm) -> bool:
    """Whether there is a release."""
    try:
        program("status", RELEASE)
    except ChartError:
        return False
    return True


def asked(real: RealCluster, pool: WatchedPool) -> Asked:
    """Two callers of short questions."""
    model = pool.read()["spec"]["model"]["name"]
    return Asked(url=service_url(real), model=model, streams=2, tokens=8)


def routers(real: RealCluster) -> set[str]:
    """What tells the routers that go on apart."""
    return {each["metadata"]["uid"] for each in pods_of(real, "router")}


def logs_access(real: RealCluster) -> bool:
    """Whether all routers that go on log a line per request."""
    arguments = [each["spec"]["containers"][0]["args"] for each in pods_of(real, "router")]
    return bool(arguments) and all("--access-log" in each for each in arguments)
