"""Tokens are drawn from the right distribution, after the right edits, each row on its own."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from fakes.fake_runner import best_of
from scheduling import request
from splitpool_worker.sampling.candidates import Rows, choose
from splitpool_worker.sampling.largest import best, top
from splitpool_worker.sampling.randomness import uniform
from splitpool_worker.sampling.sampler import draw
from splitpool_worker.schedule.sequence import Drawn, Sample, SamplingParams, Sequence

VOCAB = 1500


def sequence(
    params: SamplingParams, *, prompt: tuple[int, ...] = (1,), out: tuple[int, ...] = ()
) -> Sequence:
    made = Sequence.of(request("r", prompt=prompt, out=100, params=params, stops=(5,)), 0.0)
    made.tokens += out
    return made


def params(seed: int = 0, **fields: object) -> SamplingParams:
    return SamplingParams(seed=seed, **fields)  # type: ignore[arg-type]


def draw_all(logits: torch.Tensor, sequences: list[Sequence]) -> list[Drawn | None]:
    return draw(logits, best_of(logits), [Sample(one, one.outputs) for one in sequences])


def token(logits: torch.Tensor, made: Sequence) -> int:
    (drawn,) = draw_all(logits[None].clone(), [made])
    assert drawn is not None
    return drawn.token_id


def flat(*, seed: int = 0, vocab: int = VOCAB, spread: float = 1.0) -> torch.Tensor:
    return torch.randn(vocab, generator=torch.Generator().manual_seed(seed)) * spread


def kept_by_sort(probs: torch.Tensor, p: SamplingParams) -> tuple[list[int], torch.Tensor]:
    """What min_p, then top_k, then top_p keep, by sorting everything: the textbook."""
    order = probs.argsort(descending=True)
    sorted_probs = probs[order].double()
    keep = sorted_probs >= p.min_p * sorted_probs[0]
    if p.top_k:
        keep &= torch.arange(len(order)) < p.top_k
    sorted_probs = sorted_probs * keep
    sorted_probs /= sorted_probs.sum()
    before = sorted_probs.cumsum(0) - sorted_probs
    sorted_probs *= (before < p.top_p) | (torch.arange(len(order)) == 0)
    sorted_probs /= sorted_probs.sum()
    return [int(t) for t, q in zip(order, sorted_probs, strict=True) if q > 0], sorted_probs


def chi_square_is_small(counts: Counter[int], expected: dict[int, float], draws: int) -> bool:
    """Whether draws look like the distribution, at about five standard deviations; neighbours are
    counted together until twenty draws are expected of them."""
    statistic, cells, seen, due = 0.0, 0, 0, 0.0
    for value, probability in expected.items():
        seen, due = seen + counts[value], due + probability * draws
        if due >= 20:
            statistic += (seen - due) ** 2 / due
            cells, seen, due = cells + 1, 0, 0.0
    freedom = max(1, cells - 1)
    return statistic < freedom + 5 * math.sqrt(2 * freedom)


def named(limits: object) -> str:
    """The limits that are not at their defaults."""
    text = str(limits)
    if isinstance(limits, SamplingParams):
        text = " ".join(
            f"{name}={value:g}"
            for name in ("temperature", "min_p", "top_k", "top_p")
            if (value := getattr(limits, name)) != getattr(SamplingParams(seed=0), name)
        )
    return text or "none"


LIMITS = [
    params(),
    params(temperature=0.7),
    params(temperature=2.0),
    params(top_k=5),
    params(top_k=500),
    params(top_k=2000, top_p=0.99),
    params(top_p=0.5),
    params(top_p=0.95),
    params(top_p=0.999, temperature=1.5),
    params(min_p=0.2),
    params(min_p=0.001, top_p=0.9),
    params(min_p=0.05, top_k=20, top_p=0.8),
]


@pytest.mark.parametrize("limits", LIMITS, ids=named)
@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_draws_follow_the_distribution_of_the_sort_based_reference(
    limits: SamplingParams, spread: float
) -> None:
    logits, draws = flat(spread=spread), 2000
    probs = (logits / limits.temperature).softmax(0)
    tokens, weights = kept_by_sort(probs, limits)
    rows = Rows.of(probs.expand(draws, -1), [limits] * draws, [uniform(7, i) for i in range(draws)])
    counts = Counter(choose(rows).tolist())

    assert set(counts) <= set(tokens)
    expected = {t: float(q) for t, q in zip(tokens, weights, strict=False)}
    assert chi_square_is_small(counts, expected, draws)


def test_an_unlimited_draw_reaches_tokens_far_beyond_the_few_most_likely() -> None:
    logits, draws = flat(spread=0.1), 3000
    rows = Rows.of(
        logits.softmax(0).expand(draws, -1), [params()] * draws, [i / draws for i in range(draws)]
    )
    counts = Counter(choose(rows).tolist())

    assert len(counts) > 0.95 * VOCAB
    assert max(counts.values()) <= 4


def test_the_chi_square_test_notices_a_distribution_that_is_slightly_off() -> None:
    logits, draws = flat(spread=2.0), 2000
    probs = (logits / 1.2).softmax(0)
    rows = Rows.of(
        probs.expand(draws, -1), [params()] * draws, [uniform(7, i) for i in range(draws)]
    )
    expected = {t: float(q) for t, q in enumerate(logits.softmax(0))}
    assert not chi_square_is_small(Counter(choose(rows).tolist()), expected, draws)


@pytest.mark.parametrize("limits", LIMITS[3:], ids=named)
def test_every_token_that_the_reference_keeps_can_be_drawn_and_no_other(
    limits: SamplingParams,
) -> None:
    logits = flat(vocab=150, spread=2.0)
    limits = replace(limits, top_k=min(limits.top_k, 100))
    probs = (logits / limits.temperature).softmax(0)
    tokens, weights = kept_by_sort(probs, limits)
    edges = [float(edge) for edge in weights.cumsum(0)[: len(tokens)]]
    middles = [(a + b) / 2 for a, b in zip([0.0, *edges], edges, strict=False)]
    rows = Rows.of(probs.expand(len(middles), -1), [limits] * len(middles), middles)

    assert sorted(choose(rows).tolist()) == sorted(tokens)


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0 - 2.0**-53])
@pytest.mark.parametrize("limits", [*LIMITS, params(top_p=0.0), params(top_k=1)], ids=named)
def test_the_ends_of_the_unit_interval_give_tokens_that_are_kept(
    limits: SamplingParams, number: float
) -> None:
    probs = (flat() / limits.temperature).softmax(0)
    assert choose(Rows.of(probs[None], [limits], [number])).item() in kept_by_sort(probs, limits)[0]


def test_temperature_zero_is_argmax_and_top_k_of_one_too() -> None:
    logits = flat()
    assert token(logits, sequence(params(temperature=0.0))) == int(logits.argmax())
    assert token(logits, sequence(params(top_k=1))) == int(logits.argmax())


@pytest.mark.parametrize("temperature", [1e-9, 1e-4, 1e-3])
def test_a_temperature_next_to_zero_is_next_to_argmax(temperature: float) -> None:
    logits = flat()
    assert token(logits, sequence(params(temperature=temperature))) == int(logits.argmax())


def test_logit_bias_comes_before_the_penalties() -> None:
    logits = torch.zeros(10)
    logits[3] = -1.0
    biased = params(temperature=0.0, logit_bias=((3, 5.0),), repetition_penalty=10.0)

    # Bias first makes 4.0 of the logit of token 3, which the penalty then divides: 0.4 wins.
    # Penalty first would make -10 + 5 of it, and token 0 would win.
    assert token(logits, sequence(biased, prompt=(3,))) == 3


def test_penalties_come_before_the_temperature_and_limits_after_it() -> None:
    logits = torch.tensor([4.0, 3.0, 2.0, 1.0])
    base = params(presence_penalty=2.5, top_k=1)
    assert token(logits, sequence(base, out=(0,))) == 1
    # top_p sees the probabilities after temperature: cold enough, one token holds 90 %.
    cold = {token(logits, sequence(params(seed, temperature=0.2, top_p=0.9))) for seed in range(50)}
    warm = {token(logits, sequence(params(seed, temperature=1.0, top_p=0.9))) for seed in range(50)}
    assert (cold, warm) == ({0}, {0, 1, 2})


def test_min_p_comes_before_top_p() -> None:
    probs = torch.tensor([0.5, 0.26, 0.13, 0.11])
    # Of the two that min_p keeps, the first holds 66 %, so top_p 0.6 keeps it alone;
    # of all four, it would need the second as well.
    both = params(min_p=0.5, top_p=0.6)
    rows = Rows.of(probs.expand(9, -1), [both] * 9, [i / 9 for i in range(9)])
    assert set(choose(rows).tolist()) == {0}
    rows = Rows.of(probs.expand(9, -1), [params(top_p=0.6)] * 9, [i / 9 for i in range(9)])
    assert set(choose(rows).tolist()) == {0, 1}


def test_frequency_penalty_grows_with_each_occurrence_and_presence_does_not() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0])
    frequent = params(temperature=0.0, frequency_penalty=0.6)
    assert token(logits, sequence(frequent, out=(0,))) == 0
    assert token(logits, sequence(frequent, out=(0, 0))) == 1
    present = params(temperature=0.0, presence_penalty=0.6)
    assert token(logits, sequence(present, out=(0, 0, 0))) == 0


def test_repetition_penalty_counts_prompt_and_output_and_the_others_output_only() -> None:
    logits = torch.tensor([2.0, 1.5, 0.0])
    repeated = params(temperature=0.0, repetition_penalty=2.0)
    assert token(logits, sequence(repeated, prompt=(0,))) == 1
    present = params(temperature=0.0, presence_penalty=1.0)
    assert token(logits, sequence(present, prompt=(0,))) == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_edits_that_leave_no_finite_logits_cost_only_the_row_that_asked_for_them(
    temperature: float,
) -> None:
    broken = params(temperature=temperature, repetition_penalty=1e-300, logprobs=1)
    mates = [sequence(params(seed=seed, top_k=50)) for seed in range(2)]
    rows = torch.stack([flat(seed=seed).abs() + 1 for seed in range(3)])

    alone = draw_all(rows[1:].clone(), mates)
    lost, *others = draw_all(rows.clone(), [sequence(broken, prompt=(3,)), *mates])

    assert lost is None
    assert others == alone


def test_stop_tokens_cannot_come_before_min_tokens() -> None:
    logits = torch.zeros(10)
    logits[5] = 9.0
    patient = params(temperature=0.0, min_tokens=2)
    assert token(logits, sequence(patient, out=(1,))) != 5
    assert token(logits, sequence(patient, out=(1, 1))) == 5


def test_logprobs_are_raw_whatever_temperature_and_bias_do() -> None:
    logits = flat()
    asked = params(temperature=0.0, logit_bias=((17, 100.0),), logprobs=3)
    (drawn,) = draw_all(logits[None].clone(), [sequence(asked)])
    raw = logits.log_softmax(0)
    assert drawn is not None
    assert drawn.logprobs is not None

    assert (drawn.token_id, drawn.logprobs.token_id) == (17, 17)
    assert drawn.logprobs.logprob == pytest.approx(float(raw[17]))
    assert [t for t, _ in drawn.logprobs.top] == raw.topk(3).indices.tolist()
    assert [p for _, p in drawn.logprobs.top] == pytest.approx(raw.topk(3).values.tolist())


def test_zero_logprobs_gives_the_chosen_token_only_and_none_gives_nothing() -> None:
    logits = flat(vocab=10)
    (zero,) = draw_all(logits[None].clone(), [sequence(params(logprobs=0))])
    (none,) = draw_all(logits[None].clone(), [sequence(params())])
    assert zero is not None
    assert none is not None
    assert zero.logprobs is not None
    assert (zero.logprobs.top, none.logprobs) == ((), None)


def mixed(rng: random.Random) -> SamplingParams:
    return SamplingParams(
        seed=rng.randrange(2**64),
        temperature=rng.choice([0.0, 0.5, 1.0, 1.7]),
        top_p=rng.choice([1.0, 0.9, 0.999]),
        top_k=rng.choice([0, 0, 3, 100, 1500]),
        min_p=rng.choice([0.0, 0.0, 0.01, 1e-6]),
        presence_penalty=rng.choice([0.0, 0.7]),
        repetition_penalty=rng.choice([1.0, 1.3]),
        logprobs=rng.choice([None, None, 2]),
        logit_bias=((rng.randrange(100), 3.0),) if rng.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_row_is_drawn_the_same_alone_and_beside_random_mates(seed: int) -> None:
    rng = random.Random(seed)
    made = [
        sequence(mixed(rng), out=tuple(rng.randrange(VOCAB) for _ in range(rng.randrange(30))))
        for _ in range(12)
    ]
    logits = torch.stack([flat(seed=100 * seed + i, spread=1.0) for i in range(12)])

    assert draw_all(logits.clone(), made) == [
        draw_all(logits[i : i + 1].clone(), [made[i]])[0] for i in range(12)
    ]


def test_a_row_without_finite_maximum_gives_none_and_leaves_its_mates_alone() -> None:
    logits = torch.stack([flat(seed=i) for i in range(4)])
    logits[1] = torch.nan
    logits[2, 7] = torch.inf
    for limits in (params(), params(temperature=0.0)):
        first, second, third, fourth = draw_all(logits.clone(), [sequence(limits)] * 4)
        assert first is not None
        assert (second, third) == (None, None)
        assert fourth == draw_all(logits[3:].clone(), [sequence(limits)])[0]


def test_logits_made_in_inference_mode_can_be_edited() -> None:
    with torch.inference_mode():
        logits = flat()[None]
    biased = params(temperature=0.0, logit_bias=((17, 100.0),))
    (drawn,) = draw_all(logits, [sequence(biased)])
    assert drawn is not None
    assert drawn.token_id == 17


@pytest.mark.parametrize("vocab", [64, 150, 16384, 16385, 49152])
@pytest.mark.parametrize("k", [1, 7, 64, 65, 500])
def test_the_largest_of_a_row_are_those_of_torch(vocab: int, k: int) -> None:
    rows = torch.stack([flat(seed=i, vocab=vocab) for i in range(3)])
    values, indices = top(rows, k)
    expected = rows.topk(min(k, vocab))

    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)
    assert torch.equal(best(rows)[1], rows.argmax(-1))


@pytest.mark.parametrize("vocab", [150, 49152])
def test_a_nan_anywhere_in_a_row_is_its_maximum(vocab: int) -> None:
    rows = torch.zeros(2, vocab)
    rows[1, vocab - 3] = torch.nan
    assert best(rows)[0].isnan().tolist() == [False, True]


def test_a_long_vocabulary_is_drawn_from_as_a_short_one_is() -> None:
    logits, draws = flat(vocab=49152, spread=3.0), 300
    made = [sequence(params(seed, temperature=0.8, top_p=0.9)) for seed in range(draws)]
    tokens, weights = kept_by_sort((logits / 0.8).softmax(0), made[0].request.params)
    drawn = [draw_all(logits[None].clone(), [one])[0] for one in made]
    expected = {t: float(q) for t, q in zip(tokens, weights, strict=False)}

    assert chi_square_is_small(Counter(d.token_id for d in drawn if d), expected, draws)


def test_random_numbers_depend_on_seed_and_counter_and_fill_the_unit_interval() -> None:
    numbers = [uniform(seed, counter) for seed in range(100) for counter in range(100)]

    assert len(set(numbers)) == 10_000
    assert all(0.0 <= number < 1.0 for number in numbers)
    tenths = Counter(int(number * 10) for number in numbers)
    assert chi_square_is_small(tenths, dict.fromkeys(range(10), 0.1), 10_000)


@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 - 1, 2**64, 10**30])
def test_any_integer_is_a_seed(seed: int) -> None:
    assert uniform(seed, 3) == uniform(seed, 3) != uniform(seed, 4)


def test_neighbouring_seeds_and_counters_are_unrelated() -> None:
    pairs = [(uniform(s, 0), uniform(s + 1, 0)) for s in range(2000)]
    pairs += [(uniform(1, c), uniform(1, c + 1)) for c in range(2000)]
    covariance = sum((a - 0.5) * (b - 0.5) for a, b in pairs) / len(pairs)
    assert abs(covariance) < 5 / 12 / math.sqrt(len(pairs))
