"""How long does a worker take from its start to ready, beside what `import torch` takes?

From a warm cache, alternating: `python -c "import torch"`, then the first worker of a pool file,
from its start to the first 200 of /ready. The bar: 3 s more than the import. The lines of the
worker's log tell where the time goes; the parts of its imports come from
`python -X importtime -m splitpool_worker serve ...`.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from splitpool_bench.chain import DidNotStart, free_port
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import arguments

EXAMPLES = Path(__file__).parents[1] / "examples"
START_SECONDS = 120.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start; seconds since the process was made."""

    loading: float
    warming: float
    ready: float


def import_torch() -> float:
    """Seconds."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.monotonic() - began


def command(file: Path, port: int) -> list[str]:
    """The first worker of a pool file, as `splitpool up` starts it."""
    plan = Path(sys.executable).with_name("splitpool")
    said = subprocess.run(
        [str(plan), "plan", str(file), "-o", "json"], check=True, capture_output=True
    )
    worker = json.loads(said.stdout)[0]["workers"][0]
    argv = [sys.executable, "-m", "splitpool_worker", "serve", *worker["argv"]]
    return [*argv, "--port", str(port)]


def start(file: Path) -> Start:
    """Raises DidNotStart."""
    port = free_port()
    argv = command(file, port)
    began = time.monotonic()
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        seen = {}
        while "warming" not in seen:
            assert process.stderr is not None
            line = process.stderr.readline()
            if not line:
                raise DidNotStart(f"the worker ended with {process.wait()}")
            for stage in ("loading", "warming"):
                if f": {stage}" in line:
                    seen[stage] = time.monotonic() - began
        _wait_for(f"http://127.0.0.1:{port}/ready", began)
        return Start(**seen, ready=time.monotonic() - began)
    finally:
        process.kill()
        process.communicate()


def _wait_for(url: str, began: float) -> None:
    while time.monotonic() - began < START_SECONDS:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_SECONDS)
    raise DidNotStart(f"not ready after {START_SECONDS:.0f} s")


def rows(imports: Sequence[float], starts: Sequence[Start]) -> list[tuple[str, ...]]:
    parts = {
        "import torch": imports,
        "worker, to its first line": [s.loading for s in starts],
        "... imports torch and loads": [s.warming - s.loading for s in starts],
        "... warms up": [s.ready - s.warming for s in starts],
        "worker, to ready": [s.ready for s in starts],
        "worker - import torch": beyond(imports, starts),
    }
    return [
        (name, f"{median(each):.2f}", f"{min(each):.2f}..{max(each):.2f}")
        for name, each in parts.items()
    ]


def beyond(imports: Sequence[float], starts: Sequence[Start]) -> list[float]:
    """What each start took beside the import that was measured right before it."""
    return [s.ready - taken for taken, s in zip(imports, starts, strict=True)]


def parse() -> argparse.Namespace:
    parser = arguments(__doc__, EXAMPLES / "smollm2.yaml")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    import_torch()
    start(options.file)  # these two warm the caches: of files, and of compiled operations
    imports: list[float] = []
    starts: list[Start] = []
    for number in range(options.repeats):
        imports.append(import_torch())
        starts.append(start(options.file))
        print(f"{number + 1}: import torch {imports[-1]:.2f} s, ready {starts[-1].ready:.2f} s")
    print(f"\n{table(('', 'median s', 'spread'), rows(imports, starts))}")
    checks = [
        Check(name="s to ready - import torch", measured=median(beyond(imports, starts)), limit=3.0)
    ]
    details = {"imports": imports, "starts": [asdict(each) for each in starts]}
    return finish(checks=checks, details=details, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
