"""Which Prometheus, promtool and Alertmanager do the tests run? Ones built from their Go modules.

They are built once per machine, in minutes. To do that without a test:
`PYTHONPATH=tests python -m cluster.monitoring`.
"""

import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster.go_build import Build, built, cache_folder, locked, source

_HERE = Path(__file__).parent
_PROMETHEUS = "github.com/prometheus/prometheus"
_ALERTMANAGER = "github.com/prometheus/alertmanager"
_VERSION = "github.com/prometheus/common/version.Version"
# Discovery by files, lists and Kubernetes; that of the clouds would double the time of the build.
_TAGS = ("remove_all_sd", "enable_kubernetes_sd")
# The module comes without its web pages, and does not compile where they are not there at all.
_PAGES = ("ui/app/dist/elm/index.html", "ui/app/dist/mantine/index.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPrograms:
    """Where they are."""

    prometheus: Path
    promtool: Path
    alertmanager: Path


def monitoring_programs(out: IO[str] = sys.stderr) -> MonitoringPrograms:
    """The programs, built now with progress on `out` unless they are there. Raises BuildError."""
    return MonitoringPrograms(
        prometheus=_prometheus(out) / "prometheus",
        promtool=promtool(out),
        alertmanager=_alertmanager(out) / "alertmanager",
    )


def promtool(out: IO[str] = sys.stderr) -> Path:
    """The tool that tests rules. Raises BuildError."""
    return _prometheus(out) / "promtool"


def _prometheus(out: IO[str]) -> Path:
    module = _HERE / "prometheus"
    # v0.316.0 is the Go module of release 3.16.0.
    release = re.sub(r"^v0\.(\d)0?(\d+)\.", r"\1.\2.", _version(module, _PROMETHEUS))
    builds = tuple(
        Build(
            package=f"{_PROMETHEUS}/cmd/{name}",
            names=(name,),
            stamps={_VERSION: release},
            tags=_TAGS,
        )
        for name in ("prometheus", "promtool")
    )
    return built("prometheus", module, builds, out)


def _alertmanager(out: IO[str]) -> Path:
    version = _version(_HERE / "alertmanager", _ALERTMANAGER)
    build = Build(
        package="./cmd/alertmanager",
        names=("alertmanager",),
        stamps={_VERSION: version.removeprefix("v")},
    )
    return built("alertmanager", _with_pages(version, out), (build,), out)


def _with_pages(version: str, out: IO[str]) -> Path:
    """A copy of Alertmanager's module in the cache, with empty pages."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    copy = cache / f"alertmanager-source-{version}"
    with locked(cache / "alertmanager-source.lock", out):
        if not copy.exists():
            files = source(_HERE / "alertmanager", f"{_ALERTMANAGER} {version}", out)
            scratch = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=cache))
            try:
                _copy(files, scratch)
                scratch.rename(copy)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return copy


def _copy(files: Path, target: Path) -> None:
    # Contents only: Go keeps its modules read-only.
    for file in files.rglob("*"):
        if file.is_file():
            place = target / file.relative_to(files)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    for page in _PAGES:
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).touch()
    target.chmod(0o755)


def _version(module: Path, name: str) -> str:
    """The release that a module requires, as in v3.22.0."""
    text = (module / "go.mod").read_text()
    (found,) = re.findall(rf"^(?:require)?\s*{re.escape(name)} (v\S+)", text, re.MULTILINE)
    return str(found)


if __name__ == "__main__":
    print(monitoring_programs())
