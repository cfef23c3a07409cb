"""promtool and Helm 3, built once per machine before the first test: no time limit ends that."""

import sys
from pathlib import Path

import pytest

from cluster import helm, monitoring

_BUILT = {"promtool": monitoring.promtool, "helm3": helm.helm3}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is not there yet."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    wanted = [build for name, build in _BUILT.items() if name in fixtures]
    if not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            for build in wanted:
                build(sys.stderr)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The tool that tests rules."""
    return monitoring.promtool()


@pytest.fixture(scope="session")
def helm3() -> Path:
    """The last of Helm 3."""
    return helm.helm3()
