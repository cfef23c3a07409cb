"""Programs are built once per machine, by one process at a time, and never half."""

import concurrent.futures
import io
import stat
from pathlib import Path

import pytest

from cluster.binaries import PROGRAMS, programs, version
from cluster.building import BuildError
from cluster.go_build import Build, built, cache_folder, source

HELLO = (Build(package="./hello", names=("hello", "hi"), stamps={"main.word": "hello"}),)
# Answers as Go does; builds by noting that it was asked to.
FAKE_GO = """#!/bin/sh
case $1 in
env) echo go1.99.0 ;;
mod)
    [ "$4" = example.com/word@v1.0.0 ] || {{ echo "$4 not found"; exit 1; }}
    echo '{{"Path": "example.com/word", "Dir": "/modules/word"}}' ;;
build)
    echo "$@" >> {log}
    echo "go: downloading example.com/word v1.0.0" >&2
    echo "hello" >&2
    while [ "$1" != -o ]; do shift; done
    echo built > "$2"
    exit {status}
esac
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module of one program."""
    (tmp_path / "words" / "hello").mkdir(parents=True)
    (tmp_path / "words" / "go.mod").write_text("module example.com/words\n\ngo 1.26.0\n")
    (tmp_path / "words" / "hello" / "main.go").write_text("package main\n")
    return tmp_path / "words"


def test_two_that_want_the_same_build_it_once(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_go(tmp_path, monkeypatch)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        one, other = pool.map(lambda _: built("words", module, HELLO, io.StringIO()), range(2))

    assert one == other
    assert (one / "hi").read_text() == (one / "hello").read_text() == "built\n"
    (command,) = log.read_text().splitlines()
    assert "-X main.word=hello" in command


def test_a_changed_source_is_built_again(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_go(tmp_path, monkeypatch)
    before = built("words", module, HELLO, io.StringIO())
    (module / "hello" / "main.go").write_text("package main // new\n")

    assert built("words", module, HELLO, io.StringIO()) != before
    assert len(log.read_text().splitlines()) == 2


def test_a_build_that_fails_says_what_go_said_and_leaves_nothing_behind(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_go(tmp_path, monkeypatch, status=1)

    with pytest.raises(BuildError, match="downloading example"):
        built("words", module, HELLO, io.StringIO())

    assert [file.name for file in cache_folder().iterdir()] == ["words.lock"]


def test_progress_is_told(module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_go(tmp_path, monkeypatch)
    out = io.StringIO()
    built("words", module, HELLO, out)

    assert out.getvalue().startswith("Building hello, hi, once for this machine")


def test_a_module_that_is_required_is_fetched_or_said_to_be_missing(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_go(tmp_path, monkeypatch)

    assert source(module, "example.com/word v1.0.0", io.StringIO()) == Path("/modules/word")
    with pytest.raises(BuildError, match="other@v1 not found"):
        source(module, "example.com/other v1", io.StringIO())


def test_programs_of_the_machine_are_taken_where_all_are_of_the_minor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROGRAMS:
        program(tmp_path / "assets" / name, f"#!/bin/sh\necho {name} {version()}\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))

    assert programs() == {name: tmp_path / "assets" / name for name in PROGRAMS}


@pytest.mark.parametrize("kubectl", ["", "#!/bin/sh\necho Kubernetes v1.20.0\n"])
def test_programs_are_built_where_one_is_missing_or_of_another_minor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubectl: str
) -> None:
    with_go(tmp_path, monkeypatch)
    for name in PROGRAMS[:-1]:
        program(tmp_path / "assets" / name, f"#!/bin/sh\necho {name} {version()}\n")
    if kubectl:
        program(tmp_path / "assets" / PROGRAMS[-1], kubectl)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    out = io.StringIO()

    found = programs(out)

    assert {file.parent.parent for file in found.values()} == {cache_folder()}
    assert f"lack {PROGRAMS[-1]} of {version()}" in out.getvalue()


def with_go(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> Path:
    """Put a Go first on the PATH; the answer is the log of what it was asked to build."""
    log = folder / "built.log"
    program(folder / "bin" / "go", FAKE_GO.format(log=log, status=status))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    return log


def program(file: Path, text: str) -> None:
    """A program of a few lines of shell."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
