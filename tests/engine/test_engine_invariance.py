"""A request gives the same tokens whatever surrounds it: mates, chunks, cache, poison."""

from dataclasses import replace

import pytest

from engine_rig import prompts, running
from fakes.fake_runner import continuation
from scheduling import BATCH, INTERACTIVE, class_limits, request, worker_limits
from splitpool_worker.schedule.limits import WorkerLimits
from splitpool_worker.schedule.sequence import Request, SamplingParams

OUT = 20


def crowd(seed: int, *, sampled: bool = False) -> dict[str, Request]:
    requests = {}
    for i, prompt in enumerate(prompts(seed, 16)):
        params = SamplingParams(seed=i, temperature=0.8 if sampled else 0.0, top_p=0.9)
        cls = INTERACTIVE if i % 2 else BATCH
        requests[f"r{i}"] = request(f"r{i}", prompt=prompt, out=OUT, cls=cls, params=params)
    return requests


def shared(
    kv_blocks: int = 40, budget: int = 64, chunk: int = 16, **limits: bool | float
) -> WorkerLimits:
    cache = bool(limits.pop("prefix_cache", True))
    classes = [
        class_limits(
            cls, kv_blocks=kv_blocks, token_budget=budget, prefill_chunk=chunk, prefix_cache=cache
        )
        for cls in (INTERACTIVE, BATCH)
    ]
    return worker_limits(*classes, max_model_len=100, **limits)  # type: ignore[arg-type]


def served(limits: WorkerLimits, requests: dict[str, Request]) -> dict[str, list[int]]:
    with running(limits) as rig:
        rig.poison_free_blocks()
        rig.submit(*requests.values())
        rig.wait(*requests)
        return {name: rig.tokens(name) for name in requests}


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(shared(), id="usual"),
        pytest.param(shared(chunk=1), id="chunks of 1"),
        pytest.param(shared(chunk=7), id="chunks of 7"),
        pytest.param(shared(chunk=64, budget=500), id="whole prompts"),
        pytest.param(shared(prefix_cache=False), id="no prefix cache"),
        pytest.param(shared(kv_blocks=25), id="preemption"),
        pytest.param(shared(max_step_s=1e-6), id="short steps"),
        pytest.param(shared(static=True), id="static"),
        pytest.param(shared(class_priority=False), id="no class priority"),
        pytest.param(shared(draft_tokens=7), id="drafts"),
        pytest.param(shared(draft_tokens=7, kv_blocks=25), id="drafts and preemption"),
    ],
)
def test_greedy_tokens_are_those_of_the_bare_model(limits: WorkerLimits) -> None:
    requests = crowd(seed=1)
    for name, tokens in served(limits, requests).items():
        assert tokens == continuation(requests[name].prompt, OUT)


@pytest.mark.parametrize("kv_blocks", [25, 40, 200])
@pytest.mark.parametrize("draft_tokens", [0, 7])
def test_seeded_tokens_are_the_same_alone_and_in_a_crowd(kv_blocks: int, draft_tokens: int) -> None:
    requests = crowd(seed=2, sampled=True)
    together = served(shared(kv_blocks=kv_blocks, draft_tokens=draft_tokens), requests)
    for name in ("r0", "r7", "r12"):
        assert served(shared(), {name: requests[name]})[name] == together[name]


@pytest.mark.parametrize("sampled", [False, True])
def test_guesses_that_are_wrong_leave_nothing_behind(sampled: bool) -> None:
    """The fake model never repeats itself, its prompts here do; tests/engine/test_drafts.py has a
    model that does."""
    requests = {
        name: replace(one, prompt=one.prompt * 2)
        for name, one in list(crowd(seed=3, sampled=sampled).items())[:4]
    }
    plain = served(shared(kv_blocks=200), requests)
    with running(shared(kv_blocks=200, draft_tokens=7)) as rig:
        rig.poison_free_blocks()
        for name, one in requests.items():  # alone, a guess is tried even if it is not likely
            rig.submit(one)
            rig.wait(name)
        assert {name: rig.tokens(name) for name in requests} == plain
    steps = [of for stats in rig.stats for of in stats.classes.values()]

    assert sum(step.draft_tokens for step in steps) > sum(step.accepted_tokens for step in steps)


def test_preemption_does_happen_in_the_crowded_case() -> None:
    requests = crowd(seed=1)
    with running(shared(kv_blocks=25)) as rig:
        rig.submit(*requests.values())
        rig.wait(*requests)
    assert sum(of.preemptions for stats in rig.stats for of in stats.classes.values()) > 0


@pytest.mark.parametrize("length", [3, 4, 5, 15, 16, 17])
def test_a_prefix_hit_gives_the_tokens_of_a_cold_start(length: int) -> None:
    prompt = list(range(length))
    with running() as rig:
        rig.poison_free_blocks()
        for name in ("cold", "warm"):
            rig.submit(request(name, prompt=prompt, out=OUT))
            rig.wait(name)

    assert rig.tokens("cold") == rig.tokens("warm") == continuation(prompt, OUT)
    (first,) = [output.first for output in rig.outputs["warm"] if output.first]
    assert first.cached_tokens == length - 1


@pytest.mark.parametrize("shared", [1, 6, 9, 15])
def test_prompts_that_part_inside_a_block_give_the_tokens_of_a_cold_start(shared: int) -> None:
    with running() as rig:
        rig.poison_free_blocks()
        prompts = {f"r{i}": [*range(shared), *[30 + i] * 9] for i in range(4)}
        for name, prompt in prompts.items():
            rig.submit(request(name, prompt=prompt, out=OUT))
            rig.wait(name)

    assert {name: rig.tokens(name) for name in prompts} == {
        name: continuation(prompt, OUT) for name, prompt in prompts.items()
    }
    cached = [
        output.first.cached_tokens
        for name in prompts
        for output in rig.outputs[name]
        if output.first
    ]
    assert cached == [0, shared, shared, shared]


def test_another_tenants_prefix_is_computed_again() -> None:
    prompt = list(range(17))
    with running() as rig:
        for name, salt in (("ours", b"a"), ("theirs", b"b"), ("ours again", b"a")):
            rig.submit(request(name, prompt=prompt, out=2, salt=salt))
            rig.wait(name)
    cached = {name: rig.outputs[name][0].first for name in rig.outputs}

    assert [first.cached_tokens for first in cached.values() if first] == [0, 0, 16]


def test_samples_of_one_prompt_differ_by_seed_and_repeat_with_it() -> None:
    def sample(name: str, seed: int) -> Request:
        params = SamplingParams(seed=seed, temperature=1.0)
        return request(name, prompt=[1, 2, 3], out=OUT, params=params)

    with running() as rig:
        rig.submit(sample("a", 1), sample("b", 2), sample("a again", 1))
        rig.wait("a", "b", "a again")

    assert rig.tokens("a") == rig.tokens("a again") != rig.tokens("b")
