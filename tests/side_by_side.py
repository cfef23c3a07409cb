"""Runs all tests as two processes side by side: clusters are waited for while others compute.

    python tests/side_by_side.py [pytest's options]

What the tests with clusters say is shown as it comes, what the others say when all have ended. The
exit status is 0 where both have passed.
"""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

TESTS = Path(__file__).parent
CLUSTERS = ("chart", "cluster", "node")


def folders() -> tuple[list[str], list[str]]:
    """Those with clusters, and all others that have tests."""
    found = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/test_*.py")})
    return (
        [str(TESTS / name) for name in found if name in CLUSTERS],
        [str(TESTS / name) for name in found if name not in CLUSTERS],
    )


def start(paths: list[str], options: list[str], out: IO[str] | None) -> "subprocess.Popen[str]":
    """One of the two."""
    command = [sys.executable, "-m", "pytest", *options, *paths]
    return subprocess.Popen(command, stdout=out, stderr=out, text=True)


def main() -> int:
    """Run both, and show both."""
    waiting, computing = folders()
    with tempfile.TemporaryFile("w+") as said:
        other = start(computing, sys.argv[1:], said)
        shown = start(waiting, sys.argv[1:], None)
        with contextlib.suppress(KeyboardInterrupt):  # which reaches both of them
            shown.wait()
            other.wait()
        statuses = shown.wait(), other.wait()
        said.seek(0)
        sys.stdout.write(said.read())
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    raise SystemExit(main())
