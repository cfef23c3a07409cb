"""Of a real cluster nothing is left on the machine, however its run ends."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from cluster.api import eventually
from node import keeper
from node.keeper import cgroups
from node.leftovers import starting

TESTS = Path(__file__).parents[1]
STARTS_ONE_WITH_A_POD_AND_FAILS_WHEN_TOLD_TO = """
import json, sys
from cluster.api import eventually
from node.cluster import running
from node.pods import is_ready, server
with running() as real:
    pod = real.admin.create(server("web", "default"))
    eventually(lambda: is_ready(real.admin.reread(pod)), "the pod is ready")
    facts = {"folder": str(real.box.folder), "device": real.box.tie.device, "first": real.box.first}
    print(json.dumps(facts), flush=True)
    sys.stdin.readline()
    raise SystemExit("a test has failed")
"""
# Where programs of a node write, whatever they are told.
FIXED = [
    Path(name)
    for name in (
        "/opt/containerd",
        "/run/containerd",
        "/run/netns",
        "/usr/libexec/kubernetes",
        "/var/lib/cni",
        "/var/lib/kubelet",
        "/var/log/containers",
        "/var/log/pods",
    )
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A process that runs a cluster, and what belongs to the cluster."""

    process: subprocess.Popen[str]
    folder: Path
    device: str
    first: psutil.Process
    programs: tuple[psutil.Process, ...]
    fixed: tuple[Path, ...]
    kernel: Mapping[str, str]

    @property
    def keeper(self) -> psutil.Process:
        """The process that ends all."""
        return psutil.Process(self.first.ppid())

    def left(self) -> list[object]:
        """What is still on the machine."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        device = Path("/sys/class/net") / self.device
        return [
            *(each for each in self.programs if is_alive(each)),
            *(each for each in mounts if str(self.folder) in each),
            *cgroups(self.folder.name),
            *(each for each in (self.folder, device) if each.exists()),
            *(each for each in FIXED if each.exists() and each not in self.fixed),
            *(kernel_settings().items() - self.kernel.items()),
        ]


@pytest.fixture
def run() -> Iterator[Run]:
    """A run whose cluster has a ready pod."""
    fixed, kernel = tuple(each for each in FIXED if each.exists()), kernel_settings()
    with python("-c", STARTS_ONE_WITH_A_POD_AND_FAILS_WHEN_TOLD_TO) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        first = psutil.Process(facts["first"])
        yield Run(
            process=process,
            folder=Path(facts["folder"]),
            device=facts["device"],
            first=first,
            programs=tuple(of_namespaces(first)),
            fixed=fixed,
            kernel=kernel,
        )
        process.kill()


def test_nothing_is_left_of_a_run_that_fails(run: Run) -> None:
    names = {each.name() for each in run.programs}
    assert {"etcd", "kube-apiserver", "kubelet", "containerd-shim-runc-v2", "pod"} <= names
    assert cgroups(run.folder.name)

    run.process.communicate("fail")

    assert run.process.returncode == 1
    assert run.left() == []


def test_nothing_is_left_of_a_run_that_is_killed(run: Run) -> None:
    run.process.kill()

    eventually(lambda: not run.left(), "all is gone")


def test_what_is_left_of_a_run_whose_keeper_is_killed_too_goes_when_the_next_starts(
    run: Run,
) -> None:
    run.keeper.send_signal(signal.SIGKILL)
    run.process.kill()
    run.process.wait()
    eventually(lambda: not any(map(is_alive, run.programs)), "all processes have ended")

    with starting():
        pass

    eventually(lambda: not run.left(), "all is gone")


@pytest.mark.usefixtures("real")
def test_make_cluster_keeps_another_up_that_this_machine_reaches_until_ctrl_c() -> None:
    with python("-m", "node.keep") as process:
        assert process.stdout is not None
        said = "".join(itertools.takewhile(lambda line: "Ctrl-C" not in line, process.stdout))
        config, kubectl = word_after("KUBECONFIG=", said), word_after("alias kubectl=", said)
        listed = subprocess.run(
            [kubectl, "--kubeconfig", config, "get", "nodes"], capture_output=True, text=True
        )
        process.send_signal(signal.SIGINT)

    assert "node-0   Ready" in listed.stdout, listed.stderr
    assert process.returncode == 0
    folder = Path(word_after("logs ", said))
    assert not folder.exists()
    assert not cgroups(folder.name)


@pytest.mark.usefixtures("real")
def test_nothing_is_left_of_a_run_that_ends_while_its_namespaces_are_made(tmp_path: Path) -> None:
    folder = tmp_path / f"{os.getpid()}-early"
    folder.mkdir()
    command = [sys.executable, "-I", "-S", keeper.__file__, str(folder), str(tmp_path / "lock")]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()

    assert list(tmp_path.iterdir()) == []
    assert not cgroups(folder.name)


@contextlib.contextmanager
def python(*args: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that finds the tests' modules; killed where the test does not end it."""
    with subprocess.Popen(
        [sys.executable, *args],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def kernel_settings() -> Mapping[str, str]:
    """What a kubelet sets where it is not as it wants it."""
    names = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
    return {name: Path("/proc/sys", name).read_text() for name in names}


def word_after(mark: str, text: str) -> str:
    """The first word after a mark."""
    return text.partition(mark)[2].split()[0]


def of_namespaces(first: psutil.Process) -> Iterator[psutil.Process]:
    """All processes in the network of a cluster or in one that its containers have."""
    with_children = [first, *first.children(recursive=True)]
    network = os.stat(f"/proc/{first.pid}/ns/net").st_ino
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if process in with_children or os.stat(f"/proc/{process.pid}/ns/net").st_ino == network:
                yield process


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
