"""What does the command line say beside the pool file?"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from splitpool_operator.local.inspect_model import INSPECT
from splitpool_operator.local.supervise import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The commands of the three programs; each is given its own arguments behind these."""

    worker: Sequence[str] = (sys.executable, "-m", "splitpool_worker", "serve")
    router: Sequence[str] = (sys.executable, "-m", "splitpool_router")
    inspect: Sequence[str] = INSPECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says beside the pool file."""

    host: str = "127.0.0.1"
    port: int = 8080
    state_dir: Path | None = None
    log_dir: Path | None = None
    worker_flags: Sequence[str] = ()
    router_flags: Sequence[str] = ()
    programs: Programs = field(default_factory=Programs)
    timing: Timing = field(default_factory=Timing)
