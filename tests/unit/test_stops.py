"""Stop strings: what is held back, what is emitted, and which match ends the text."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from splitpool_worker.text.stops import Piece, StopFilter


def run(stops: list[str], parts: list[str], *, whole_tokens: bool = False) -> tuple[str, list[str]]:
    """All text that came out, and what had come out after each part."""
    filter = StopFilter(stops, whole_tokens=whole_tokens)
    said, after = "", []
    for part in parts:
        said += "".join(piece.text for piece in filter.push(Piece(text=part)))
        after.append(said)
        if filter.matched is not None:
            return said, after
    return said + "".join(piece.text for piece in filter.flush()), after


def cuts(text: str) -> list[list[str]]:
    """The text in two parts, cut at every point, and letter by letter."""
    return [[text[:at], text[at:]] for at in range(1, len(text))] + [list(text)]


def test_a_stop_string_cut_at_every_point_ends_the_text_before_it() -> None:
    for parts in cuts("hello ###END world"):
        assert run(["###END"], parts)[0] == "hello "


def test_only_a_proper_prefix_of_a_stop_string_is_held_back() -> None:
    _, after = run(["###"], ["ab#", "#", "c", "#"])

    assert after == ["ab", "ab", "ab##c", "ab##c"]


def test_what_was_held_comes_out_when_it_is_no_stop_string_after_all() -> None:
    assert run(["\n\n"], ["a", "\n", "b", "\n"])[0] == "a\nb\n"


def test_a_stop_string_that_restarts_inside_itself_is_found() -> None:
    for parts in cuts("xaab"):
        assert run(["aab"], parts)[0] == "x"
    for parts in cuts("xaaab"):
        assert run(["aab"], parts)[0] == "xa"


def test_the_match_that_completes_first_wins_however_the_text_is_cut() -> None:
    for parts in cuts("one abcd two"):
        assert run(["abcd", "bc"], parts)[0] == "one a"


def test_of_two_that_complete_together_the_longer_one_wins() -> None:
    for parts in cuts("one abc"):
        assert run(["c", "abc"], parts)[0] == "one "


def test_tokens_count_with_the_end_of_their_text() -> None:
    filter = StopFilter(["##"])

    head = filter.push(Piece(text="ab#"))
    tail = filter.push(Piece(text="c"))

    assert [(piece.text, piece.tokens) for piece in head] == [("ab", 0)]
    assert [(piece.text, piece.tokens) for piece in tail] == [("#", 1), ("c", 1)]


def test_whole_tokens_are_held_back_whole() -> None:
    assert run(["##"], ["ab#", "c"], whole_tokens=True)[1] == ["", "ab#c"]


def test_a_token_whose_head_is_out_still_counts_when_its_tail_is_cut_off() -> None:
    filter = StopFilter(["##"])

    pieces = filter.push(Piece(text="ab#", logprobs=("p",))) + filter.push(Piece(text="#"))

    assert sum(piece.tokens for piece in pieces) == 1
    assert [piece.logprobs for piece in pieces if piece.tokens] == [("p",)]


texts = st.text(alphabet="ab#\n", max_size=30)
stop_lists = st.lists(st.text(alphabet="ab#\n", min_size=1, max_size=4), max_size=4)


@given(texts, stop_lists, st.data())
def test_cutting_never_changes_what_comes_out(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    points = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    parts = [text[a:b] for a, b in itertools.pairwise(points)]

    said, after = run(stops, parts)

    assert said == run(stops, list(text))[0]
    assert text.startswith(said)
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(after))
    assert not any(stop in said for stop in stops)


@given(texts, stop_lists)
def test_held_back_is_never_more_than_it_must_be(text: str, stops: list[str]) -> None:
    filter = StopFilter(stops)
    said = ""
    for letter in text:
        said += "".join(piece.text for piece in filter.push(Piece(text=letter)))
        if filter.matched:
            return
    held = text[len(said) :]

    longest = max(
        (n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])), default=0
    )
    assert len(held) == longest
