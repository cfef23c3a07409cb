"""A real cluster for the whole session, on machines that can run one."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

import pytest

from cluster.api import eventually
from node import packages
from node.cluster import RealCluster, prepare, running
from node.release import RELEASE, install

# The fixtures that start one.
_NODES = {"real", "run"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip where no node can run; in CI as root one has to."""
    why = packages.hindrance() or _missing()
    for item in filter(_needs_node, items):
        # Images are built and pods started in fixtures, which takes as long as it takes.
        item.add_marker(pytest.mark.timeout(func_only=True))
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is not there yet before the first test, where no time limit ends it."""
    wanted = any(_needs_node(item) and not _is_skipped(item) for item in session.items)
    if wanted and not session.config.option.collectonly:
        with _uncaptured(session.config):
            prepare(sys.stderr)


def _needs_node(item: pytest.Item) -> bool:
    return not _NODES.isdisjoint(getattr(item, "fixturenames", ()))


def _is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


def _missing() -> str | None:
    """Why nothing is to be run here: packages are installed in CI, elsewhere when asked to."""
    if os.environ.get("CI") or not packages.missing():
        return None
    return f"{', '.join(packages.missing())} are missing; make e2e installs them"


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """What is printed is seen at once."""
    capture = config.pluginmanager.getplugin("capturemanager")
    disabled: contextlib.AbstractContextManager[None] = capture.global_and_fixture_disabled()
    return disabled


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """The cluster of the session; the logs of its programs stay in pytest's folder."""
    with running(logs=tmp_path_factory.mktemp("node-logs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def images(real: RealCluster, request: pytest.FixtureRequest) -> Mapping[str, str]:
    """References of the project's images in the cluster's registry."""
    with _uncaptured(request.config):
        return real.images


@pytest.fixture(scope="session")
def release(real: RealCluster, images: Mapping[str, str]) -> str:
    """The chart with the project's images, for all tests of the session; its namespace."""
    install(real, images)
    return RELEASE


@pytest.fixture
def namespace(real: RealCluster) -> Iterator[str]:
    """A namespace of the test's own, deleted afterwards."""
    with own_namespace(real) as name:
        yield name


@pytest.fixture(scope="module")
def shared_namespace(real: RealCluster) -> Iterator[str]:
    """A namespace of the module's own, deleted afterwards."""
    with own_namespace(real) as name:
        yield name


@contextlib.contextmanager
def own_namespace(real: RealCluster) -> Iterator[str]:
    """A namespace until the end of the block."""
    metadata = {"generateName": "test-"}
    made = real.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    name = str(made["metadata"]["name"])
    eventually(
        lambda: real.admin.listed("v1", "ServiceAccount", name), "the namespace's account is there"
    )
    yield name
    real.admin.delete(made)
