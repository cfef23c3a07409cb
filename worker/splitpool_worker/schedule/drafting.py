"""Which tokens may come next? Those that followed when the last few were there before.

Texts repeat themselves, and answers their prompts. A step computes guessed tokens beside the next
one; each that turns out to be what would have been drawn is a step saved, the others are forgotten.
(Prompt lookup decoding, Saxena 2023; the verifying of drafts: Leviathan et al., arXiv:2211.17192.)
"""

from array import array
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

FIRST_CHANCE = (0.2, 0.4, 0.6)
"""That a guess is right which the last 1, 2 or 3 tokens led to, before any of its text was seen."""
RATE = 0.15
"""Part of its distance to the outcome that a chance moves with each guess."""
LOOK_BACK = 8192
"""Tokens that are looked through, and twice as many kept: longer texts cost no more."""
_TRIES = 64
"""Matches of bytes that may lie across tokens, until a search is given up."""
_BYTES = 4
"""Of a token as it is kept; patterns are found as bytes, at memory's speed."""


@dataclass(slots=True)
class Guess:
    """Tokens that may come next."""

    tokens: list[int]
    order: int
    """How many of the last tokens led to it."""
    chance: float
    """That one of them is right where those before are."""

    def worth(self, least: float) -> int:
        """How many of them, all together, are right with a chance above `least`."""
        count, chance = 0, self.chance
        while count < len(self.tokens) and chance > least:
            count += 1
            chance *= self.chance
        return count


@dataclass(slots=True)
class Lookup:
    """The text of one sequence so far, and how often guesses from it were right."""

    chances: list[float] = field(default_factory=lambda: list(FIRST_CHANCE))
    _text: bytearray = field(default_factory=bytearray)
    _seen: int = 0

    def guess(self, tokens: Many[int], most: int) -> Guess | None:
        """At most so many, after `tokens`, which begin as those of the call before."""
        self._text += array("i", tokens[max(self._seen, len(tokens) - LOOK_BACK) :]).tobytes()
        self._seen = len(tokens)
        if len(self._text) > 2 * LOOK_BACK * _BYTES:
            del self._text[: -LOOK_BACK * _BYTES]
        for order in range(len(FIRST_CHANCE), 0, -1):
            followed = self._followed(order * _BYTES)
            if followed is not None:
                return Guess(self._read(followed, most), order, self.chances[order - 1])
        return None

    def learn(self, guess: Guess, drawn: Many[int]) -> None:
        """What was drawn instead of, or as, the first tokens of a guess."""
        for token, came in zip(guess.tokens, drawn, strict=False):
            chance = self.chances[guess.order - 1]
            self.chances[guess.order - 1] += RATE * ((token == came) - chance)
            if token != came:
                return

    def _followed(self, size: int) -> int | None:
        """Where the text goes on after the last time before now that it read as at its end."""
        text = self._text
        first, end = max(0, len(text) - LOOK_BACK * _BYTES), len(text) - _BYTES
        pattern = text[len(text) - size :]
        if len(pattern) < size:
            return None
        found = end
        for _ in range(_TRIES):
            found = text.rfind(pattern, first, min(end, found + size - 1))
            if found < 0 or found % _BYTES == 0:
                break
        return found + size if found >= 0 and found % _BYTES == 0 else None

    def _read(self, start: int, most: int) -> list[int]:
        """The tokens from there; where the text ends, it goes on as it did from there."""
        tokens = list(array("i", bytes(self._text[start : start + most * _BYTES])))
        return (tokens * -(-most // len(tokens)))[:most]
