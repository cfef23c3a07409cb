"""Which prompts a load sends: seeded texts of exactly the token lengths that were asked for.

A prompt is a row of common words, each with a space before it. Tokenizers that split at spaces
encode such a word the same way wherever it stands, so once the words that are one token are
known, a length in words is a length in tokens.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

CountTokens = Callable[[str], Awaitable[int]]

GROUP = 8  # words judged by one call of the tokenizer

_TEXT = (
    "the of and to in is you that it he was for on are as with his they at be this have from or "
    "one had by word but not what all were we when your can said there use an each which she do "
    "how their if will up other about out many then them these so some her would make like him "
    "into time has look two more write go see number no way could people my than first water "
    "been call who its now find long down day did get come made may part over new sound take "
    "only little work know place year live me back give most very after thing our just name "
    "good sentence man think say great where help through much before line right too mean old "
    "any same tell boy follow came want show also around form three small set put end does "
    "another well large must big even such because turn here why ask went men read need land "
    "different home us move try kind hand picture again change off play spell air away animal "
    "house point page letter mother answer found study still learn should world"
)
COMMON_WORDS = tuple(_TEXT.split())


class NoVocabulary(ValueError):
    """The server's tokenizer encodes no group of common words as one token each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Words of one token each, and how many tokens the tokenizer adds to any text."""

    words: tuple[str, ...]
    added_tokens: int

    def prompt(self, tokens: int, rng: random.Random) -> str:
        """A text of exactly `tokens` tokens, those that the tokenizer adds included."""
        count = tokens - self.added_tokens
        if count < 1:
            raise ValueError(f"a prompt of {tokens} tokens has no room beside {self.added_tokens}")
        return self.words_of(count, rng)

    def words_of(self, count: int, rng: random.Random) -> str:
        """A text of so many words, each of one token."""
        return "".join(f" {word}" for word in rng.choices(self.words, k=count))


async def learn(count_tokens: CountTokens) -> Vocabulary:
    """Find the words of one token by asking the server's tokenizer."""
    added = await _added_tokens(count_tokens)
    words: list[str] = []
    for start in range(0, len(COMMON_WORDS), GROUP):
        group = COMMON_WORDS[start : start + GROUP]
        if await count_tokens("".join(f" {word}" for word in group)) == added + len(group):
            words.extend(group)
    if not words:
        raise NoVocabulary("no group of common words is one token each; use `by_bytes`")
    return Vocabulary(words=tuple(words), added_tokens=added)


def by_bytes() -> Vocabulary:
    """For a server without a tokenizer to ask: each word of four bytes is taken as one token.

    Lengths are then estimates; `usage.prompt_tokens` of the answers says what they were.
    """
    return Vocabulary(words=tuple(w for w in COMMON_WORDS if len(w) == 3), added_tokens=0)


def lengths(low: int, high: int, count: int, rng: random.Random) -> list[int]:
    """`count` lengths, uniform over low..high, both included."""
    if not 1 <= low <= high:
        raise ValueError(f"prompt lengths {low}..{high}: the range must start at 1 or more")
    return [rng.randint(low, high) for _ in range(count)]


async def _added_tokens(count_tokens: CountTokens) -> int:
    once = await count_tokens(" the")
    twice = await count_tokens(" the the")
    return 2 * once - twice
