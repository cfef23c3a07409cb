"""Which namespaces does a run live in, and how does one get into them?

A `Box` is a process, a network and a mount namespace, kept by a `keeper`. One pair of network
devices ties it to this machine, so that the node's address can be reached from here. Several boxes
do not get into one another's way.
"""

import contextlib
import ipaddress
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from node import keeper
from node.leftovers import lock_of, starting

# Each box has four addresses of a range that RFC 2544 sets aside for tests of networks.
_ADDRESSES = ipaddress.IPv4Network("198.19.0.0/16")
_DEVICES = Path("/sys/class/net")
_CLOSE_SECONDS = 300.0


class BoxError(Exception):
    """The namespaces could not be made; the text ends with what was said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """The network devices between this machine and a box."""

    device: str
    here: str
    inside: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The namespaces of one run."""

    folder: Path
    first: int
    tie: Tie

    @property
    def address(self) -> str:
        """The node's."""
        return self.tie.inside

    @property
    def cgroup(self) -> str:
        """Below which all of the run's cgroups are."""
        return keeper.cgroup(self.folder.name)

    @property
    def network(self) -> tuple[str, ...]:
        """Put before a command: it runs in the network namespace, else as it would anyway."""
        return _network_of(self.first)

    @property
    def all(self) -> tuple[str, ...]:
        """Put before a command: it runs in all namespaces, and ends with what runs it here."""
        into = ("nsenter", "--target", str(self.first), "--net", "--mount", "--pid", "--")
        return *into, "setpriv", "--pdeathsig", "KILL"

    def path_inside(self, name: str) -> Path:
        """How a file of the mount namespace is called here."""
        return Path(f"/proc/{self.first}/root{name}")

    def seen_inside(self, file: Path) -> str:
        """How a file of the run's folder is called in the mount namespace."""
        return str(Path(keeper.INSIDE) / file.relative_to(self.folder))


@contextlib.contextmanager
def boxed(routes: Sequence[str]) -> Iterator[Box]:
    """A box, whose node has routes to these networks; nothing is left of it afterwards.

    Raises BoxError.
    """
    with contextlib.ExitStack() as stack:
        with starting() as runs:
            folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=runs))
            first = stack.enter_context(_kept(folder))
            tie = stack.enter_context(_tied(first, routes))
        yield Box(folder=folder, first=first, tie=tie)


@contextlib.contextmanager
def _kept(folder: Path) -> Iterator[int]:
    """The id of the first process of a keeper's namespaces."""
    command = [sys.executable, "-I", "-S", keeper.__file__, str(folder), str(lock_of(folder))]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C is for the run, whose end the keeper waits for.
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stdout.readline()
        if not said:
            raise BoxError(f"no namespaces could be made: {process.stderr.read()}")
        try:
            yield int(said)
        finally:
            process.stdin.close()
            process.wait(_CLOSE_SECONDS)


@contextlib.contextmanager
def _tied(first: int, routes: Sequence[str]) -> Iterator[Tie]:
    """The devices between this machine and the namespaces of a process."""
    tie = _free_tie()
    inside = _network_of(first)
    _ip((), f"link add {tie.device} type veth peer name node0 netns {first}")
    try:
        _ip((), f"address add {tie.here}/30 dev {tie.device}", f"link set {tie.device} up")
        ours = [f"address add {tie.inside}/30 dev node0", "link set node0 up"]
        _ip(inside, "link set lo up", *ours, *(f"route add {to} via {tie.here}" for to in routes))
        _said([*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        yield tie
    finally:
        # The kernel removes it with the box's last process, which may have been killed.
        if (_DEVICES / tie.device).exists():
            _ip((), f"link delete {tie.device}")


def _free_tie() -> Tie:
    """The first addresses, counted from this process' number, that no box has."""
    blocks = list(_ADDRESSES.subnets(new_prefix=30))
    for step in range(len(blocks)):
        number = (os.getpid() + step) % len(blocks)
        device = f"spl{number}"
        if not (_DEVICES / device).exists():
            here, inside = blocks[number].hosts()
            return Tie(device=device, here=str(here), inside=str(inside))
    raise BoxError(f"all addresses of {_ADDRESSES} are in use")


def _network_of(process: int) -> tuple[str, ...]:
    return "nsenter", f"--net=/proc/{process}/ns/net", "--"


def _ip(prefix: Sequence[str], *commands: str) -> None:
    _said([*prefix, "ip", "-batch", "-"], "\n".join(commands))


def _said(command: Sequence[str], stdin: str = "") -> None:
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BoxError(f"{' '.join(command)}: {ended.stdout}{ended.stderr}\n{stdin}")
