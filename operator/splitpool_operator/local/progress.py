"""How far has every process come: loading, warming, ready?"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from splitpool_operator.local.console import Console

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Phase(StrEnum):
    """Where a process stands."""

    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class Progress:
    """The phase of each process, as lines, and on a TTY as one spinning line."""

    def __init__(self, console: Console, names: Sequence[str], clock: Callable[[], float]) -> None:
        self._console = console
        self._phases = dict.fromkeys(names, Phase.LOADING)
        self._clock = clock
        self._began = clock()
        self._stopping = False

    @property
    def all_ready(self) -> bool:
        """Whether every process is ready now."""
        return all(phase is Phase.READY for phase in self._phases.values())

    def move(self, name: str, phase: Phase) -> None:
        """A process came to a phase."""
        if self._phases[name] is phase:
            return
        self._phases[name] = phase
        if not self._stopping:
            self._console.say(f"splitpool: {name} is {phase} ({self._seconds():.1f} s)")

    def phase(self, name: str) -> Phase:
        """Where a process stands."""
        return self._phases[name]

    def stop(self) -> None:
        """Say nothing more: processes end because they were told to."""
        self._stopping = True
        self._console.status("")

    def draw(self) -> None:
        """One frame of the live line; nothing when all are ready."""
        if self.all_ready or self._stopping:
            self._console.status("")
            return
        frame = _FRAMES[int(self._seconds() * 10) % len(_FRAMES)]
        waiting = "  ".join(f"{n} {p}" for n, p in self._phases.items() if p is not Phase.READY)
        self._console.status(f"{frame} {self._seconds():.0f} s  {waiting}")

    def _seconds(self) -> float:
        return self._clock() - self._began
