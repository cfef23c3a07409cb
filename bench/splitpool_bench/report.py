"""What was measured, against which bar, on which machine: as a table and as JSON."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A measured figure and the bar that it is held against."""

    name: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def passed(self) -> bool:
        """NaN passes nothing."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def bar(self) -> str:
        """The bar in words, such as `<= 2.5`."""
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns aligned: the first to the left, all others to the right."""
    cells = [[str(cell) for cell in header], *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return "\n".join(_line(row, widths) for row in cells)


def verdict(checks: Sequence[Check]) -> str:
    """One row a check, with pass or FAIL."""
    rows = [
        (check.name, f"{check.measured:.3g}", check.bar, "pass" if check.passed else "FAIL")
        for check in checks
    ]
    return table(("check", "measured", "bar", ""), rows)


def machine() -> dict[str, Any]:
    """The machine that a figure belongs to."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def finish(
    *, checks: Sequence[Check], details: dict[str, Any], about: dict[str, Any], path: Path | None
) -> int:
    """Print the verdict and the machine, write JSON where asked, and return the exit status."""
    print(f"\n{verdict(checks)}\n\n{', '.join(f'{key} {value}' for key, value in about.items())}")
    if path:
        rows = [asdict(check) | {"passed": check.passed} for check in checks]
        text = json.dumps({"machine": about, "checks": rows, "details": details}, indent=2)
        path.write_text(text + "\n")
    return 0 if all(check.passed for check in checks) else 1


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first = row[0].ljust(widths[0])
    others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return "  ".join((first, *others)).rstrip()


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
