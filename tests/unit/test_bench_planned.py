"""Which requests a measurement sends: lengths, classes, words, and trace files."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.measuring.planned import Mix, Planned, Range, Writer
from splitpool_bench.measuring.trace import BadTrace, read
from splitpool_bench.prompts import Vocabulary

RANGES = st.tuples(st.integers(1, 50), st.integers(0, 50)).map(
    lambda pair: Range(low=pair[0], high=pair[0] + pair[1])
)
VOCABULARY = Vocabulary(words=("one", "two", "three"), added_tokens=1)


def mix(share: float = 0.0, prompt: Range | None = None) -> Mix:
    return Mix(
        latency_class="interactive",
        prompt=prompt or Range(low=5, high=9),
        output=Range(low=2, high=3),
        other_share=share,
        other_prompt=Range(low=100, high=100),
        other_output=Range(low=7, high=7),
    )


@given(prompt=RANGES, seed=st.integers(0, 99))
def test_lengths_stay_in_their_range_and_repeat_with_their_seed(prompt: Range, seed: int) -> None:
    drawn = mix(prompt=prompt).planned([0.0, 0.5, 1.0], seed)

    assert [each.at for each in drawn] == [0.0, 0.5, 1.0]
    assert all(prompt.low <= each.prompt_tokens <= prompt.high for each in drawn)
    assert drawn == mix(prompt=prompt).planned([0.0, 0.5, 1.0], seed)


def test_a_share_of_the_requests_is_of_the_other_class() -> None:
    drawn = mix(share=0.25).planned([0.0] * 4000, seed=1)

    batch = [each for each in drawn if each.latency_class == "batch"]
    assert len(batch) / len(drawn) == pytest.approx(0.25, abs=0.03)
    assert {(each.prompt_tokens, each.output_tokens) for each in batch} == {(100, 7)}


@pytest.mark.parametrize(("low", "high"), [(0, 3), (4, 3)])
def test_an_empty_range_is_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="tokens: a range"):
        Range(low=low, high=high)


@given(length=st.integers(10, 60), shared=st.integers(0, 8))
def test_prompts_share_their_beginning_and_nothing_else_by_intent(length: int, shared: int) -> None:
    planned = [Planned(at=0, prompt_tokens=length, output_tokens=1, latency_class="batch")] * 3
    jobs = Writer(vocabulary=VOCABULARY, shared_prefix=shared).jobs(planned, "a")

    words = [job.prompt.split() for job in jobs]
    assert all(len(each) + VOCABULARY.added_tokens == length for each in words)
    assert len({tuple(each[:shared]) for each in words}) == 1


def test_the_same_plan_under_other_words_makes_other_prompts_of_the_same_length() -> None:
    planned = mix().planned([0.0] * 20, seed=1)
    writer = Writer(vocabulary=Vocabulary(words=tuple("abcdefgh"), added_tokens=0))

    first, again, other = (writer.jobs(planned, words) for words in ("a", "a", "b"))

    assert first == again
    assert [len(job.prompt) for job in first] == [len(job.prompt) for job in other]
    assert not {job.prompt for job in first} & {job.prompt for job in other}


def test_a_prompt_without_room_is_refused() -> None:
    planned = [Planned(at=0, prompt_tokens=1, output_tokens=1, latency_class="batch")]
    with pytest.raises(ValueError, match="no room"):
        Writer(vocabulary=VOCABULARY).jobs(planned, "a")


def test_a_trace_begins_at_0_in_the_order_of_its_starts() -> None:
    lines = ['{"at": 7.5, "input": 3, "output": 4}', "", '{"at": 7, "input": 1, "output": 2}']
    first, second = read(lines, "batch")

    assert (first.at, first.prompt_tokens, first.output_tokens) == (0.0, 1, 2)
    assert (second.at, second.latency_class) == (0.5, "batch")


@given(starts=st.lists(st.floats(0, 1e6), min_size=1, max_size=20), rng=st.randoms())
def test_however_its_lines_are_ordered_a_trace_is_the_same(
    starts: list[float], rng: random.Random
) -> None:
    lines = [f'{{"at": {at!r}, "input": 1, "output": 1}}' for at in starts]
    mixed = rng.sample(lines, len(lines))

    assert read(lines, "batch") == read(mixed, "batch")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "there is no request"),
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1 is no JSON object"),
        ('{"at": 0, "input": 1, "output": 1, "model": "x"}', "'model' is not known"),
        ('{"input": 1, "output": 1}', "at is None; give the start in seconds"),
        ('{"at": NaN, "input": 1, "output": 1}', "at is nan"),
        ('{"at": 0, "input": 0, "output": 1}', "input is 0; give a number of tokens"),
        ('{"at": 0, "input": 1, "output": true}', "output is True"),
        ('{"at": 0, "input": 1, "output": 1, "class": "fast"}', "use interactive or batch"),
    ],
)
def test_a_line_that_is_no_request_is_named_with_its_remedy(line: str, said: str) -> None:
    with pytest.raises(BadTrace, match=said):
        read([line], "interactive")
