"""A model comes from wherever its source says; where it does not, the pool says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.watched_pool import WatchedPool
from fakes.fake_hub import hub
from node import tiny_model
from node.cluster import RealCluster
from node.pods import volume_and_claim
from node.serving import PATIENCE_SECONDS, declare, wait_ready


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, in a folder that every user may read."""
    folder = tmp_path_factory.mktemp("models")
    folder.chmod(0o755)
    return tiny_model.write(folder / "tiny")


@pytest.fixture(scope="module")
def hub_url(real: RealCluster, model: Path) -> Iterator[str]:
    """A hub that has the model, where pods reach it."""
    with hub(real.box.tie.here) as running:
        files = {file.name: file.read_bytes() for file in model.iterdir()}
        running.models = {"tests/tiny": files}
        yield running.url


@pytest.fixture(scope="module")
def repository(real: RealCluster, model: Path) -> str:
    """Where the registry has an image `tiny` of the model."""
    repository = f"{real.registry}/splitpool/models"
    tiny_model.push(real, model, f"{repository}:tiny")
    return repository


@pytest.fixture
def claim(real: RealCluster, namespace: str, model: Path) -> Iterator[str]:
    """A claim on a volume that has the model in a folder."""
    name = f"models-{namespace}"
    volume, wanted = volume_and_claim(name, namespace, model.parent)
    real.admin.create(volume)
    real.admin.create(wanted)
    yield name
    real.admin.delete(volume)


@pytest.fixture
def pool(real: RealCluster, release: str, namespace: str) -> WatchedPool:
    """A pool of the test's own."""
    return WatchedPool(real.admin, namespace)


@pytest.mark.parametrize(
    "source", ["pvc://{claim}/tiny", "hf://tests/tiny", "oci://{repository}:tiny"]
)
def test_a_model_comes_from_where_the_source_says(
    pool: WatchedPool, claim: str, repository: str, hub_url: str, source: str
) -> None:
    declare_tiny(pool, source.format(claim=claim, repository=repository), hub_url)

    wait_ready(pool)


@pytest.mark.parametrize(
    ("source", "reason", "cause", "remedy"),
    [
        (
            "pvc://nowhere/tiny",
            "ModelNotFound",
            "the claim nowhere of pvc://nowhere/tiny does not exist",
            "create it in the namespace of the pool, or correct the source",
        ),
        (
            "pvc://{claim}/other",
            "ModelNotFound",
            "/model/other does not exist",
            "correct the path or put the model there",
        ),
        (
            "hf://tests/other",
            "ModelDownloadFailed",
            "{hub} has no such model",
            "correct the name or set HF_TOKEN",
        ),
        (
            "oci://{repository}:other",
            "ImagePullFailed",
            "image {repository}:other cannot be pulled",
            "correct the image",
        ),
        (
            "file:///models/other.gguf",
            "ModelNotFound",
            "/models/other.gguf does not exist",
            "correct the path or put the model there",
        ),
    ],
    ids=["claim", "path", "hub", "image", "file"],
)
def test_a_model_that_is_not_there_is_told_of(
    pool: WatchedPool,
    claim: str,
    repository: str,
    hub_url: str,
    source: str,
    reason: str,
    cause: str,
    remedy: str,
) -> None:
    places = {"claim": claim, "repository": repository, "hub": hub_url}

    declare_tiny(pool, source.format(**places), hub_url)

    pool.wait("Ready", "False", reason, PATIENCE_SECONDS)
    assert cause.format(**places) in pool.message("Ready")
    assert remedy in pool.message("Ready")


def declare_tiny(pool: WatchedPool, source: str, hub_url: str) -> None:
    """A pool of the tiny model, whose downloads ask a hub."""
    env = [{"name": "HF_ENDPOINT", "value": hub_url}]
    where = {"spec.model.source": source, "spec.podTemplate.env": env}
    declare(pool, tiny_model.POOL | where)
