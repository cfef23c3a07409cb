"""A control plane for the whole session; a namespace, fake nodes and the audit log for a test."""

import itertools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cluster.api import Api, eventually
from cluster.audit import AuditLog
from cluster.binaries import programs
from cluster.control_plane import ControlPlane, running
from cluster.crds import install
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.helm import helm, helm3
from cluster.monitoring import MonitoringPrograms, monitoring_programs

_NUMBERS = itertools.count()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is not there yet before the first test, where no time limit ends it."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "binaries" in fixtures and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            programs(sys.stderr)
            helm(sys.stderr)
            if "monitoring" in fixtures:
                monitoring_programs(sys.stderr)
            if "chart" in fixtures:
                helm3(sys.stderr)


@pytest.fixture(scope="session")
def binaries() -> Mapping[str, Path]:
    """The programs of the control plane."""
    return programs()


@pytest.fixture(scope="session")
def monitoring() -> MonitoringPrograms:
    """Prometheus and Alertmanager."""
    return monitoring_programs()


@pytest.fixture(scope="session")
def control_plane(
    binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The control plane of the session, with the project's CRD."""
    with running(binaries, tmp_path_factory.mktemp("control-plane")) as plane:
        install(plane.admin)
        yield plane


@pytest.fixture
def admin(control_plane: ControlPlane) -> Api:
    """The API as the administrator sees it."""
    return control_plane.admin


@pytest.fixture
def audit(control_plane: ControlPlane) -> AuditLog:
    """Who did what."""
    return control_plane.audit


@pytest.fixture
def namespace(admin: Api) -> Iterator[str]:
    """A namespace of the test's own, deleted afterwards; pods can be made in it."""
    name = f"test-{next(_NUMBERS)}"
    made = admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    eventually(
        lambda: admin.listed("v1", "ServiceAccount", name), "the namespace has its service account"
    )
    yield name
    admin.delete(made)


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[FakeNodes]:
    """Fake nodes; none until the test adds some."""
    api = control_plane.api(KUBELET, groups=["system:masters"])
    with playing(api) as fakes:
        yield fakes
    api.close()
