"""How does a build that takes minutes run? To its end, its progress told and its words kept."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from cluster.processes import dying_with_this

# Of a line that was said and the seconds since the start: what is worth telling now.
Progress: TypeAlias = Callable[[str, float], str | None]
_LAST_LINES = 30


class BuildError(Exception):
    """Something could not be built; the text ends with what the builder said."""


def run(
    command: Sequence[str],
    title: str,
    out: IO[str],
    *,
    progress: Progress,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run it to its end, in a folder, and say how long it takes. It ends with this process, also
    where that is killed (Linux). Raises BuildError."""
    started = time.monotonic()
    print(f"{title} ...", file=out, flush=True)
    with subprocess.Popen(
        [*dying_with_this(), *command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        said: list[str] = []
        for line in process.stdout or ():
            said.append(line.rstrip())
            elapsed = time.monotonic() - started
            news = progress(said[-1], elapsed)
            if news:
                print(f"  {elapsed:.0f} s: {news}", file=out, flush=True)
    if process.returncode:
        raise BuildError(f"{title} failed:\n" + "\n".join(said[-_LAST_LINES:]))
    print(f"  done in {time.monotonic() - started:.0f} s", file=out, flush=True)
