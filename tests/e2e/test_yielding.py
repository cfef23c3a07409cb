"""In Split the batch worker makes way on the shared cores: seen in its step log."""

import time
from typing import Any

import aiohttp

from e2e.asking import events_of, stream, until
from splitpool_bench.chain import Chain, steps
from splitpool_bench.client import Client
from splitpool_bench.load import always_in_flight
from splitpool_bench.prompts import learn
from splitpool_bench.workload import Workload

BUDGET = 512  # a step of a batch worker on cpu, by default
YIELDED = BUDGET // 16
JOBS = Workload(latency_class="batch", low=900, high=1100, output=32)
QUESTION = Workload(latency_class="interactive", low=1500, high=1500, output=1)
NOTICE_SECONDS = 0.5  # for the router to ask; a step that has begun is not shortened


async def test_batch_steps_keep_to_the_yielded_budget_while_an_interactive_request_waits(
    http: aiohttp.ClientSession, patient: Chain
) -> None:
    client = Client(http, patient.url, patient.model)
    words = await learn(client.count_tokens)
    question = next(QUESTION.jobs(words, seed=1)).prompt
    async with always_in_flight(8, JOBS.jobs(words, seed=2), client.complete):
        await until(lambda: any(carried(step) > YIELDED for step in batch_steps(patient)))
        begin = time.monotonic()
        async with stream(http, patient, prompt=question, max_tokens=1) as response:
            await anext(events_of(response))
        end = time.monotonic()

    waiting = [s for s in batch_steps(patient) if begin + NOTICE_SECONDS < s["started"] < end]
    assert waiting, f"no batch step in {end - begin:.1f} s: it should yield, not stop"
    assert max(carried(step) for step in waiting) <= YIELDED


def batch_steps(chain: Chain) -> list[dict[str, Any]]:
    """Step records of the batch worker; `started` is the machine's monotonic clock."""
    (worker,) = (w for w in chain.workers() if w.classes == ("batch",))
    return steps(chain, worker.name)


def carried(step: dict[str, Any]) -> int:
    """Batch tokens of one step."""
    batch = step["classes"]["batch"]
    return int(batch["decode_tokens"] + batch["prefill_tokens"])
