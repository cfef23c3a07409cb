"""What keeps pools from running on this machine, before anything is started?"""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import Spec
from splitpool_operator.local import host_memory, inspect_model
from splitpool_operator.local.inspect_model import InspectFailed
from splitpool_operator.planning import quota
from splitpool_operator.planning.plan import Plan
from splitpool_operator.planning.quota import Room

EXIT_FAILED = 1
EXIT_BAD_FILE = 2
EXIT_DOES_NOT_FIT = 3
EXIT_NO_MODEL = 4
EXIT_PORT_TAKEN = 5
EXIT_NOT_WRITABLE = 6


class Refused(Exception):
    """The pools do not run here; `code` is the exit status of the command."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def check_place(spec: Spec) -> None:
    """Raises Refused where only a cluster could run this pool."""
    if not inspect_model.is_local(spec):
        raise Refused(
            EXIT_NO_MODEL,
            f"spec.model.source: {spec.model.source} is for clusters; on one machine use "
            "file:///path or python://package/file.gguf",
        )
    sharing = defaults.sharing(spec)
    if sharing is None:
        return
    if sharing.mode == "MIG":
        raise Refused(
            EXIT_BAD_FILE,
            "spec.sharing.mode: MIG slices are given out by a cluster; on one machine use DRA or "
            "Exclusive",
        )
    if sharing.minimum_enforcement != "Cooperative":
        raise Refused(
            EXIT_BAD_FILE,
            f"spec.sharing.minimumEnforcement: {sharing.minimum_enforcement} is more than the "
            "Cooperative fence of one machine's plain processes; lower it or use a cluster",
        )


def rooms(plan: Plan, command: Sequence[str]) -> dict[str, list[Room]]:
    """The room of every class of each worker, by worker. Raises InspectFailed, QuotaTooSmall."""
    cards = {}
    result = {}
    for worker in plan.workers:
        if worker.largest_step not in cards:
            step = worker.largest_step
            cards[step] = inspect_model.inspect(plan.pool.spec, step, command)
        card = cards[worker.largest_step]
        result[worker.name] = [
            quota.room(size, card, pays_weights=position == 0)
            for position, size in enumerate(worker.quotas.values())
        ]
        for name, left in zip(worker.quotas, result[worker.name], strict=True):
            quota.check_room(name, left, card)
    return result


def check_model(plan: Plan, command: Sequence[str]) -> None:
    """Raises Refused where the model is missing or a quota cannot hold it."""
    try:
        rooms(plan, command)
    except InspectFailed as error:
        raise Refused(exit_status(error), str(error)) from None
    except quota.QuotaTooSmall as error:
        raise Refused(EXIT_DOES_NOT_FIT, str(error)) from None


def exit_status(error: InspectFailed) -> int:
    """Of a command that needed to know the model."""
    return error.code if error.code in {EXIT_BAD_FILE, EXIT_NO_MODEL} else EXIT_FAILED


def check_memory(plans: list[Plan], free: int | None) -> None:
    """Raises Refused where the CPU workers need more host memory than is free."""
    short = host_memory.shortage(plans, free) if free is not None else None
    if short is not None:
        raise Refused(EXIT_DOES_NOT_FIT, short)


def writable(folder: Path, what: str) -> None:
    """Make a folder of ours. Raises Refused where files cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(
            EXIT_NOT_WRITABLE,
            f"the {what} {folder} cannot be written ({error.strerror}); name a folder that can",
        ) from None


def lock(folder: Path) -> TextIO:
    """Hold a state folder as long as the file is open. Raises Refused where another one does."""
    file = (folder / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip() or "?"
        file.close()
        raise Refused(
            EXIT_NOT_WRITABLE,
            f"the state folder {folder} is in use by process {owner}; stop it or name another",
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
