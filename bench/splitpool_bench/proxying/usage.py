"""What has a process used: CPU seconds of all its threads, and how much of it is resident?"""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One reading. Seconds have the resolution of the kernel's clock tick, 10 ms as a rule."""

    cpu_seconds: float
    resident: int


def usage(pid: int) -> Usage:
    """From /proc/PID/stat and /proc/PID/status (proc_pid_stat(5)); raises FileNotFoundError."""
    # The name in parentheses may hold spaces; fields 14 and 15 are utime and stime.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(after_name[11]), int(after_name[12])
    return Usage(cpu_seconds=(user + system) / _TICKS, resident=resident(pid))


def resident(pid: int) -> int:
    """Resident bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise FileNotFoundError(f"/proc/{pid}/status has no VmRSS")
