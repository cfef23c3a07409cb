"""Commands from other threads to the engine's: posting never waits, the engine takes them all at
once between two steps."""

from collections import deque
from collections.abc import Callable
from threading import Event

Command = Callable[[], object]


class Mailbox:
    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._posted = Event()

    def post(self, command: Command) -> None:
        self._commands.append(command)
        self._posted.set()

    def take(self) -> list[Command]:
        """Everything posted so far, in order."""
        self._posted.clear()
        return [self._commands.popleft() for _ in range(len(self._commands))]

    def wait(self, timeout: float | None) -> None:
        """Return once something is posted, or after `timeout` seconds."""
        self._posted.wait(timeout)
