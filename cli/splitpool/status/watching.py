"""How is a changing answer shown: on a terminal in its place, elsewhere one page after another?"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from splitpool.output import say
from splitpool.status.reading import Unanswered
from splitpool.status.snapshot import Snapshot

_SECONDS = 2.0
_HOME, _CLEAR_SCREEN, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"

Ask = Callable[[], Awaitable[list[Snapshot]]]
Text = Callable[[Sequence[Snapshot], str], str]


async def watch(ask: Ask, text: Text, *, live: bool, between: str) -> NoReturn:
    """Until it is cancelled. Raises what `ask` does, but goes on when the cluster is away later."""
    seen, gap = await ask(), ""
    last: list[tuple[str, ...]] | None = None
    while True:
        state = [_versions(each) for each in seen]
        if live:
            height = shutil.get_terminal_size().lines
            say(redrawn(text(seen, gap), height, first=last is None))
        elif state != last:
            say(text(seen, gap) if last is None else between + text(seen, gap))
        last = state
        await asyncio.sleep(_SECONDS)
        try:
            seen, gap = await ask(), ""
        except Unanswered as error:
            gap = f"({error}; asked again every {_SECONDS:g} s)"


def redrawn(page: str, height: int, *, first: bool) -> str:
    """What to write so that the page stands at the top; what has no room is left out."""
    lines = page.splitlines()
    if len(lines) >= height:
        # The last line says what to do.
        lines = [*lines[: max(height - 3, 0)], "  ...", lines[-1]]
    start = _CLEAR_SCREEN + _HOME if first else _HOME
    return start + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW


def _versions(seen: Snapshot) -> tuple[str, ...]:
    """What differs when there is something new to show; ages alone are not."""
    objects = (seen.pool, *seen.pods, *seen.events)
    return tuple(
        f"{each['metadata'].get('uid')} {each['metadata'].get('resourceVersion')}"
        for each in objects
    )
