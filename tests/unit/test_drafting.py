"""Guesses are what followed before, and are tried as far as they are likely to be right."""

from hypothesis import given
from hypothesis import strategies as st

from scheduling import Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.drafting import FIRST_CHANCE, Guess, Lookup
from splitpool_worker.schedule.sequence import SamplingParams


def guessed(tokens: list[int], most: int = 4) -> list[int] | None:
    guess = Lookup().guess(tokens, most)
    return None if guess is None else guess.tokens


def test_a_guess_is_what_followed_the_same_tokens_the_last_time() -> None:
    assert guessed([1, 2, 3, 10, 11, 1, 2, 3, 20, 21, 9, 1, 2, 3], 2) == [20, 21]


def test_more_tokens_in_common_are_preferred_to_later_ones() -> None:
    assert guessed([5, 1, 2, 3, 10, 9, 2, 3, 20, 5, 1, 2, 3], 1) == [10]


def test_a_text_that_repeats_its_end_is_expected_to_go_on_so() -> None:
    assert guessed([4, 8, 9, 8, 9, 8, 9], 5) == [8, 9, 8, 9, 8]
    assert guessed([3, 3], 3) == [3, 3, 3]


def test_what_was_never_there_leads_to_nothing() -> None:
    assert guessed([1, 2, 3, 4]) is None
    assert guessed([1]) is None
    assert guessed([]) is None


def test_bytes_that_agree_across_tokens_are_no_match() -> None:
    assert guessed([0x01020304, 0x01020304 << 8 & 0x7FFFFFFF, 0x04000102]) is None
    assert guessed([0x00010000, 0x00000001, 0x00000100]) is None


def naive(tokens: list[int], most: int) -> list[int] | None:
    for order in (3, 2, 1):
        end = tokens[len(tokens) - order :]
        for start in range(len(tokens) - order - 1, -1, -1):
            if tokens[start : start + order] == end:
                text = list(tokens)
                for place in range(start + order, start + order + most):
                    text.append(text[place])
                return text[len(tokens) :]
    return None


@given(st.lists(st.sampled_from([0, 1, 256, 65536, 257]), max_size=30), st.integers(1, 9))
def test_guesses_are_those_of_a_search_token_by_token(tokens: list[int], most: int) -> None:
    lookup = Lookup()
    lookup.guess(tokens[: len(tokens) // 2], most)
    found = lookup.guess(tokens, most)
    assert (None if found is None else found.tokens) == naive(tokens, most)


def test_a_chance_follows_what_comes() -> None:
    lookup = Lookup()
    wrong = Guess([1, 2], 2, lookup.chances[1])
    for _ in range(40):
        lookup.learn(wrong, [9, 2])
    assert lookup.chances[1] < 0.01
    for _ in range(20):
        lookup.learn(wrong, [1, 2, 3])
    assert lookup.chances[1] > 0.99
    assert (lookup.chances[0], lookup.chances[2]) == (FIRST_CHANCE[0], FIRST_CHANCE[2])


def test_as_many_are_tried_as_are_likely_enough_together() -> None:
    guess = Guess([1, 2, 3, 4], 3, 0.5)
    assert [guess.worth(least) for least in (0.6, 0.4, 0.2, 0.1, 0.0)] == [0, 1, 2, 3, 4]


def repeating(tokens: list[int]) -> int:
    """A model that repeats itself, with a slip now and then."""
    return (len(tokens) % 5 if len(tokens) % 17 else 90) + 1


def drive(draft_tokens: int, *, max_batch: int = 8, max_model_len: int = 1000) -> Drive:
    of_class = class_limits(max_batch=max_batch)
    return Drive(
        worker_limits(of_class, draft_tokens=draft_tokens, max_model_len=max_model_len),
        seconds=lambda plan: 1.0 + 0.01 * plan.tokens,
        model=repeating,
    )


def test_answers_are_the_same_and_take_fewer_steps() -> None:
    taken = []
    for drafts in (0, 7):
        one = drive(drafts)
        one.add(request("a", prompt=3, out=80))
        steps = len(one.run())
        taken.append((steps, [output.token_id for output in one.outputs]))
        assert [output.index for output in one.outputs] == list(range(80))
    assert taken[0][1] == taken[1][1]
    assert taken[1][0] < 0.5 * taken[0][0]


def test_no_more_tokens_than_asked_for_and_none_after_a_stop() -> None:
    one = drive(7)
    one.add(request("short", prompt=3, out=2), request("stops", prompt=3, out=80, stops=[91]))
    one.run()
    assert one.tokens_of("short") == 2
    last = [output.token_id for output in one.outputs if output.request_id == "stops"]
    assert last[-1] == 91
    assert last.count(91) == 1


def test_a_context_that_is_full_is_not_exceeded() -> None:
    one = drive(7, max_model_len=40)
    one.add(request("a", prompt=10, out=100))
    one.run()
    assert one.tokens_of("a") == 30
    assert max(share.start + share.count for plan in one.plans for share in plan.shares) <= 40


def test_nothing_is_guessed_beside_a_prompt_or_for_many() -> None:
    one = drive(7, max_batch=20)
    one.add(*(request(f"r{i}", prompt=3, out=60) for i in range(17)))
    for _ in range(10):
        one.step()
        assert all(not share.drafted for share in one.plans[-1].shares)


def test_a_step_samples_no_more_rows_than_the_quota_has_room_for() -> None:
    for max_batch, rows in ((1, 8), (3, 8), (12, 12)):
        one = drive(7, max_batch=max_batch)
        one.add(*(request(f"r{i}", prompt=3, out=60) for i in range(max_batch)))
        one.run()
        most = max(sum(share.sampled for share in plan.shares) for plan in one.plans)
        assert most == one.limits.most_sampled == rows


def test_penalties_and_tokens_that_may_not_stop_yet_are_drawn_one_by_one() -> None:
    one = drive(7)
    penalised = SamplingParams(seed=1, temperature=0.0, repetition_penalty=1.1)
    late = SamplingParams(seed=1, temperature=0.0, min_tokens=30)
    one.add(request("p", prompt=3, out=60, params=penalised))
    one.add(request("m", prompt=3, out=60, params=late))
    drafted: list[tuple[str, int]] = []
    one.inspect = lambda driven, plan: drafted.extend(
        (share.sequence.id, share.sequence.outputs) for share in plan.shares if share.drafted
    )
    one.run()
    assert "p" not in {name for name, _ in drafted}
    assert min(outputs for name, outputs in drafted if name == "m") >= 30


def test_guesses_that_are_always_wrong_are_given_up() -> None:
    one = drive(7)
    one.model = lambda tokens: 1 if len(tokens) % 2 else 100 + len(tokens)
    one.add(request("a", prompt=2, out=200))
    one.run()
    assert sum(share.drafted for plan in one.plans[100:] for share in plan.shares) == 0
