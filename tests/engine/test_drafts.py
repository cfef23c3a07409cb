"""A real model that repeats itself: guessed tokens save steps and change no token."""

import pytest

from engine_rig import Rig
from llama_models import SMOLLM2
from scheduling import INTERACTIVE, class_limits, request, worker_limits
from splitpool_worker.engine.runner import TorchRunner
from splitpool_worker.schedule.sequence import SamplingParams

OUT = 60
# Words that the model takes up again.
PROMPTS = ([504, 216, 1053, 327] * 6, [3725, 28, 504, 2, 3725, 28], list(range(900, 930)) * 2)
SAMPLED = (
    SamplingParams(seed=1, temperature=0.0),
    SamplingParams(seed=2, temperature=0.7),
    SamplingParams(seed=3, temperature=0.9, top_p=0.8, logprobs=2),
    SamplingParams(seed=4, temperature=0.0, logit_bias=((504, 1.0),)),
)


@pytest.fixture(scope="module", params=["none", "int8"])
def runner(request: pytest.FixtureRequest) -> TorchRunner:
    return TorchRunner.load(
        SMOLLM2, quantization=request.param, num_blocks=200, max_model_len=256, threads=2
    )


def answers(runner: TorchRunner, draft_tokens: int) -> tuple[dict[str, object], int]:
    """All outputs by request, and how many steps they took."""
    of_class = class_limits(INTERACTIVE, kv_blocks=200, max_batch=16, token_budget=512)
    limits = worker_limits(
        of_class, block_size=16, max_model_len=256, max_step_s=1.0, draft_tokens=draft_tokens
    )
    rig = Rig(limits, runner)
    rig.engine.start()
    try:
        for i, params in enumerate(SAMPLED):
            for j, prompt in enumerate(PROMPTS):
                rig.submit(request(f"{i} {j}", prompt=prompt, out=OUT, params=params))
            rig.wait(*(f"{i} {j}" for j in range(len(PROMPTS))))
    finally:
        rig.engine.stop(60)
    told: dict[str, object] = {
        name: [(one.index, one.token_id, one.logprobs, one.finish) for one in outputs]
        for name, outputs in rig.outputs.items()
    }
    return told, len(rig.stats)


def test_answers_are_the_same_bits_and_take_fewer_steps(runner: TorchRunner) -> None:
    plain, most = answers(runner, 0)
    drafted, steps = answers(runner, 7)

    assert drafted == plain
    assert steps < most
