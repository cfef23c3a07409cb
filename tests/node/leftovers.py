"""What did runs leave that were killed together with their keepers, and how does it go away?

A run has a folder in the user's cache and a lock beside it, which its keeper holds while it lives.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from cluster.go_build import cache_folder
from node.keeper import remove


def runs_folder() -> Path:
    """Where each run has its folder: on a disk, since images and containers are in it."""
    return cache_folder() / "node" / "runs"


def lock_of(run: Path) -> Path:
    """The file that the run's keeper holds a lock on."""
    return run.with_name(f"{run.name}.lock")


@contextlib.contextmanager
def starting() -> Iterator[Path]:
    """The folder of runs, with no other run starting, and rid of those that are dead."""
    folder = runs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "starting").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for run in folder.iterdir():
            if run.is_dir() and not _is_held(lock_of(run)):
                remove(run)
                lock_of(run).unlink(missing_ok=True)
        yield folder


def _is_held(lock: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False
