"""What do processes of this machine use, and which machine is it? Read from /proc."""

import os
from pathlib import Path


def memory(pid: int) -> dict[str, float]:
    """Resident MiB of a process now and at most."""
    lines = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return {key: round(int(lines[key].split()[0]) / 1024, 1) for key in ("VmRSS", "VmHWM")}


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)


def machine() -> str:
    """Its processor and how many there are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else 'unknown'}"
