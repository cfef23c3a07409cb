import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.prompts import CountTokens, NoVocabulary, Vocabulary, by_bytes, learn, lengths


def tokenizer_that_splits(*split: str, added: int = 1) -> CountTokens:
    """Counts one token a word, two for those in `split`, and `added` for the text as a whole."""

    async def count(text: str) -> int:
        return added + sum(2 if word in split else 1 for word in text.split())

    return count


async def test_only_words_of_one_token_are_learned() -> None:
    vocabulary = await learn(tokenizer_that_splits("water", "world"))

    assert "water" not in vocabulary.words
    assert "world" not in vocabulary.words
    assert len(vocabulary.words) > 100


@pytest.mark.parametrize("added", [0, 1, 3])
async def test_a_prompt_has_exactly_the_length_that_the_tokenizer_counts(added: int) -> None:
    count = tokenizer_that_splits("water", added=added)
    vocabulary = await learn(count)

    for tokens in (added + 1, 50, 1000):
        assert await count(vocabulary.prompt(tokens, random.Random(tokens))) == tokens


async def test_a_tokenizer_that_splits_every_word_has_no_vocabulary() -> None:
    async def letters(text: str) -> int:
        return len(text)

    with pytest.raises(NoVocabulary):
        await learn(letters)


def test_a_prompt_that_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        Vocabulary(words=("the",), added_tokens=2).prompt(2, random.Random(0))


def test_without_a_tokenizer_every_token_is_taken_as_four_bytes() -> None:
    assert len(by_bytes().prompt(100, random.Random(0)).encode()) == 400


@given(low=st.integers(1, 50), extra=st.integers(0, 50), seed=st.integers(0, 9))
def test_lengths_stay_in_their_range_and_repeat_with_their_seed(
    low: int, extra: int, seed: int
) -> None:
    drawn = lengths(low, low + extra, 30, random.Random(seed))

    assert all(low <= length <= low + extra for length in drawn)
    assert drawn == lengths(low, low + extra, 30, random.Random(seed))


def test_an_empty_range_of_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"prompt lengths 5\.\.4"):
        lengths(5, 4, 1, random.Random(0))
