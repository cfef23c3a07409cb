"""promtool, built once per machine before the first test, where no time limit ends it."""

import sys
from pathlib import Path

import pytest

from cluster.monitoring import promtool as built


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is not there yet."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "promtool" in fixtures and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            built(sys.stderr)


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The tool that tests rules."""
    return built()
