"""From the FILE argument to plans, or to an exit status with the reasons on stderr."""

import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from splitpool import output
from splitpool_operator.declaration import reading
from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.declaration.problems import PoolFileError
from splitpool_operator.local.refusals import EXIT_BAD_FILE, EXIT_DOES_NOT_FIT
from splitpool_operator.planning import plan as planning
from splitpool_operator.planning.plan import Plan
from splitpool_operator.planning.quota import DoesNotFit


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Why no plan came out; `code` is the exit status."""

    code: int
    message: str


def plans(file: Path) -> list[Plan] | Unusable:
    """A plan per pool of the file."""
    try:
        pools = _pools(file)
        return _planned(pools)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror}; check the path and its permissions"
        return Unusable(code=EXIT_BAD_FILE, message=message)
    except PoolFileError as error:
        count = len(error.problems)
        heading = f"{count} problem{'s' if count > 1 else ''}, nothing was started"
        return Unusable(code=EXIT_BAD_FILE, message=f"{error}\n{heading}")
    except DoesNotFit as error:
        return Unusable(code=EXIT_DOES_NOT_FIT, message=f"{file}: {error}")


def complain(unusable: Unusable) -> int:
    """Print the reasons; the exit status."""
    output.complain(unusable.message)
    return unusable.code


def _pools(file: Path) -> list[InferencePool]:
    if str(file) == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return reading.read("<stdin>", reading.content(sys.stdin.buffer))
    return reading.read_file(file)


def _planned(pools: list[InferencePool]) -> list[Plan]:
    """The pools share this machine's cores; each has GPUs of its own."""
    cores = max(1, _cores() // len(pools))
    result, first_gpu = [], 0
    for pool in pools:
        result.append(planning.plan(pool, cores=cores, first_gpu=first_gpu))
        first_gpu += pool.spec.accelerator.count
    return result


def _cores() -> int:
    """Cores that this process may use, which a container may have fewer of than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
