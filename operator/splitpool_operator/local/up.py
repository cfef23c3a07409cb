"""How do pools run on this machine: every worker and the router as child processes?

The same plan, worker and router as in a cluster. Nothing is started before every refusal that
can be known in advance has been checked (`refusals`).
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from splitpool_operator.local import host_memory, ports, refusals
from splitpool_operator.local.console import Console
from splitpool_operator.local.options import Options
from splitpool_operator.local.refusals import (
    EXIT_BAD_FILE,
    EXIT_DOES_NOT_FIT,
    EXIT_NOT_WRITABLE,
    EXIT_PORT_TAKEN,
    Refused,
)
from splitpool_operator.local.running import Running
from splitpool_operator.planning.plan import Plan


def run(plans: list[Plan], options: Options, console: Console) -> int:
    """Serve the pools until a signal; the exit status of the command. Raises Refused."""
    check(plans, options)
    with _folders(options) as (state, logs):
        try:
            running = Running(plans, options, console, state, logs)
        except OSError as error:
            text = f"{state} cannot be written ({error.strerror}); free room or name another folder"
            raise Refused(EXIT_NOT_WRITABLE, text) from None
        try:
            return asyncio.run(running.run())
        finally:
            console.close()


def check(plans: list[Plan], options: Options) -> None:
    """Raises Refused for everything that can be known before a process is started."""
    for plan in plans:
        refusals.check_place(plan.pool.spec)
    names = [plan.pool.metadata.name for plan in plans]
    if len(set(names)) < len(names):
        text = "two pools of one name in different namespaces; on one machine rename one of them"
        raise Refused(EXIT_BAD_FILE, f"metadata.name: {text}")
    if not any(plan.workers for plan in plans):
        raise Refused(EXIT_DOES_NOT_FIT, "every class has replicas: 0; there is nothing to run")
    if options.log_dir is not None:
        refusals.writable(options.log_dir, "log folder")
    if options.state_dir is not None:
        refusals.writable(options.state_dir, "state folder")
    try:
        ports.check(options.host, options.port)
    except (ports.PortTaken, OSError) as error:
        raise Refused(EXIT_PORT_TAKEN, str(error)) from None
    for plan in plans:
        refusals.check_model(plan, options.programs.inspect)
    refusals.check_memory(plans, host_memory.available())


@contextlib.contextmanager
def _folders(options: Options) -> Iterator[tuple[Path, Path]]:
    """State and log folder; without a name for it the state is private and removed at the end."""
    if options.state_dir is not None:
        state = options.state_dir
        with refusals.lock(state):
            yield state, _logs(options, state)
        return
    state = Path(tempfile.mkdtemp(prefix="splitpool-"))
    try:
        yield state, _logs(options, state)
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _logs(options: Options, state: Path) -> Path:
    logs = options.log_dir or state / "logs"
    refusals.writable(logs, "log folder")
    return logs
