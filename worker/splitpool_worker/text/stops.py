"""Where text ends: finds stop strings while holding back as little text as can be.

Held back is only the longest suffix that is a proper prefix of a stop string, so what was emitted
never has to be taken back. The match that completes first wins, however the text is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that is final, and the tokens that are complete with it."""

    text: str
    tokens: int = 1
    logprobs: tuple[Any, ...] = ()


class StopFilter:
    """Lets pieces through until one of the stop strings is complete.

    With `whole_tokens` a token's text is held back as a whole, so that a count of tokens says
    exactly which text a reader has.
    """

    def __init__(self, stops: Sequence[str], *, whole_tokens: bool = False) -> None:
        self._stops = tuple(stops)
        self._whole_tokens = whole_tokens
        self._held: list[Piece] = []
        self._split = False  # the head of the first held piece is out already
        self.matched: str | None = None

    def push(self, piece: Piece) -> list[Piece]:
        """The pieces that are final now that `piece` has come."""
        self._held.append(piece)
        if not self._stops:
            return self.flush()
        text = "".join(held.text for held in self._held)
        match = _first_match(text, self._stops)
        if match is not None:
            start, self.matched = match
            return self._cut(start)
        return self._release(len(text) - _held_back(text, self._stops))

    def flush(self) -> list[Piece]:
        """What is still held, at the end of the text."""
        held, self._held = self._held, []
        return held

    def _release(self, size: int) -> list[Piece]:
        """Release `size` characters; tokens count with the end of their text."""
        final: list[Piece] = []
        while self._held and len(self._held[0].text) <= size:
            piece = self._held.pop(0)
            size -= len(piece.text)
            final.append(piece)
            self._split = False
        if size and self._held and not self._whole_tokens:
            piece = self._held[0]
            self._split = True
            final.append(Piece(text=piece.text[:size], tokens=0))
            self._held[0] = replace(piece, text=piece.text[size:])
        return final

    def _cut(self, start: int) -> list[Piece]:
        """What precedes the stop string; a token that straddles its start counts whole."""
        final: list[Piece] = []
        for piece in self.flush():
            if start <= 0 and not self._split:
                break
            self._split = False
            final.append(replace(piece, text=piece.text[: max(start, 0)]))
            start -= len(piece.text)
        return final


def _first_match(text: str, stops: Sequence[str]) -> tuple[int, str] | None:
    """Start and name of the stop string that completes first; of two at once the longer."""
    found = [(text.find(stop), stop) for stop in stops]
    ends = [(start + len(stop), start, stop) for start, stop in found if start >= 0]
    if not ends:
        return None
    _, start, stop = min(ends)
    return start, stop


def _held_back(text: str, stops: Sequence[str]) -> int:
    """Length of the longest suffix that is a proper prefix of a stop string."""
    return max(_overlap(text, stop) for stop in stops)


def _overlap(text: str, stop: str) -> int:
    start = max(0, len(text) - len(stop) + 1)
    while (start := text.find(stop[0], start)) >= 0:
        if stop.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
