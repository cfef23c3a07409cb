"""Token ids become text one by one: nothing is lost, doubled or taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders

from fakes.toy_text import all_bytes, letters
from splitpool_worker.text.output import MAX_SILENT_TOKENS, AnswerText, IncrementalDecoder

BYTES = all_bytes()


def incrementally(ids: list[int]) -> str:
    decoder = IncrementalDecoder(BYTES)
    return "".join(decoder.push(token) for token in ids) + decoder.flush()


@given(st.text(max_size=40))
def test_text_decoded_token_by_token_equals_text_decoded_at_once(text: str) -> None:
    ids = BYTES.encode(text)

    assert incrementally(ids) == BYTES.decode(ids) == text


@given(st.lists(st.integers(0, 255), max_size=MAX_SILENT_TOKENS - 1))
def test_bytes_that_are_no_text_come_out_as_when_decoded_at_once(ids: list[int]) -> None:
    assert incrementally(ids) == BYTES.decode(ids)


@given(st.text(min_size=1, max_size=20), st.integers(1, 3))
def test_an_incomplete_character_at_the_end_is_shown_as_such(text: str, missing: int) -> None:
    ids = BYTES.encode(text)[:-missing]

    assert incrementally(ids) == BYTES.decode(ids)


def test_a_character_comes_out_whole() -> None:
    decoder = IncrementalDecoder(BYTES)

    assert [decoder.push(token) for token in BYTES.encode("é😀")] == ["", "é", "", "", "", "😀"]


def test_endless_bytes_that_are_no_text_do_not_pile_up() -> None:
    decoder = IncrementalDecoder(BYTES)
    (stray,) = BYTES.encode("é")[1:]

    texts = [decoder.push(stray) for _ in range(MAX_SILENT_TOKENS)]

    assert texts[-1] == "�" * MAX_SILENT_TOKENS
    assert decoder.push(BYTES.encode("a")[0]) == "a"


@pytest.mark.parametrize("strange", [10**6, -1, 2**40])
def test_an_id_outside_the_vocabulary_costs_no_other_text(strange: int) -> None:
    ids = BYTES.encode("ab")
    decoder = IncrementalDecoder(BYTES)

    texts = [decoder.push(ids[0]), decoder.push(strange), decoder.push(ids[1])]

    assert "".join(texts).endswith("b")
    assert texts[0] == "a"


def test_text_that_changes_what_was_said_before_is_continued_not_taken_back() -> None:
    """The library calls this an invalid prefix: `a` was out when `ab` turned out to be `Z`."""
    model = letters()
    model.backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "Z")])
    decoder = IncrementalDecoder(model)

    texts = [decoder.push(token) for token in model.encode("xabcd")]

    assert texts == ["x", "a", "", "bc", "d"]


def answer(text: str, **options: object) -> tuple[AnswerText, list[str]]:
    """The answer's text side, and what each token released."""
    model = letters()
    side = AnswerText(model, **options)  # type: ignore[arg-type]
    released: list[str] = []
    for token in model.encode(text):
        released.append("".join(piece.text for piece in side.push(token)))
        if side.stopped_by:
            break
    return side, released


def test_a_stop_string_ends_the_answer() -> None:
    side, released = answer("abcENDdef", stops=("END",))

    assert "".join(released) == "abc"
    assert side.stopped_by == "END"


def test_a_stop_string_counts_only_after_the_least_number_of_tokens() -> None:
    side, released = answer("aENDbENDc", stops=("END",), min_tokens=5)

    assert "".join(released) == "aENDb"
    assert side.stopped_by == "END"


def test_what_is_held_at_the_end_is_not_lost() -> None:
    side, released = answer("abcEN", stops=("END",))

    assert "".join(released) == "abc"
    assert "".join(piece.text for piece in side.finish()) == "EN"


def test_every_token_is_counted_once_also_those_without_text() -> None:
    side = AnswerText(BYTES)
    pieces = [piece for token in BYTES.encode("aé😀") for piece in side.push(token)]
    side.count_silent()
    pieces += side.finish()

    assert sum(piece.tokens for piece in pieces) == 8
    assert [piece.tokens for piece in pieces] == [1, 2, 4, 1]


def test_log_probabilities_travel_with_the_text_of_their_tokens() -> None:
    side = AnswerText(BYTES)

    pieces = [
        p for number, token in enumerate(BYTES.encode("aé")) for p in side.push(token, number)
    ]

    assert [piece.logprobs for piece in pieces] == [(0,), (1, 2)]
