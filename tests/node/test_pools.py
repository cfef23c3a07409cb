"""The project's own images on the node: installed by Helm, a pool applied, an answer streamed."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster import helm
from cluster.api import Object
from node.cluster import RealCluster
from splitpool_operator.declaration.quantity import to_bytes

CHECKOUT = Path(__file__).parents[2]
EXAMPLE = CHECKOUT / "examples" / "smollm2.yaml"
MODEL = "smollm2-135m-instruct"
RELEASE = "splitpool"
# A model is loaded on a machine that does much else.
PATIENCE = "600s"


@pytest.fixture(scope="module")
def release(real: RealCluster, images: Mapping[str, str]) -> Iterator[str]:
    """The chart, installed by Helm with the project's images; its namespace."""
    installed = real.helm(
        *("install", RELEASE, str(helm.CHART), "--namespace", RELEASE, "--create-namespace"),
        *("--wait", "--timeout", PATIENCE, *helm.images(images)),
    )
    assert installed.returncode == 0, installed.stderr
    yield RELEASE
    real.helm("uninstall", RELEASE, "--namespace", RELEASE, "--wait")


@pytest.fixture(scope="module")
def assistant(real: RealCluster, release: str) -> Iterator[Object]:
    """The pool of the example, ready; the very file that local mode takes."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    made = real.admin.create(namespace)
    there = ("--namespace", "team")
    kubectl(real, "apply", "--filename", str(EXAMPLE), *there)
    kubectl(real, "wait", "spl/assistant", "--for=condition=Ready", f"--timeout={PATIENCE}", *there)
    yield real.admin.get("splitpool.dev/v1alpha1", "InferencePool", "assistant", "team")
    real.admin.delete(made)


@pytest.mark.parametrize("latency_class", ["interactive", "batch"])
def test_an_unmodified_client_in_the_cluster_gets_a_streamed_answer(
    real: RealCluster, assistant: Object, latency_class: str
) -> None:
    said = chat(real, latency_class)

    assert said["class"] == latency_class
    assert said["completion_tokens"] == 24
    assert len(said["text"].split()) > 5


def test_the_status_says_what_runs(real: RealCluster, assistant: Object) -> None:
    line = kubectl(real, "get", "spl", "assistant", "--namespace", "team", "--no-headers").split()

    assert line[:4] == ["assistant", MODEL, "1/1", "1/1"]
    vram = {
        part: to_bytes(amount)
        for part, amount in assistant["status"]["pools"]["interactive"]["vram"].items()
        if part in {"quota", "weights", "kv"}
    }
    assert vram["weights"] + vram["kv"] <= vram["quota"] == 768 * 2**20
    assert assistant["status"]["enforcement"] == "Cgroup"


def test_programs_log_and_measure(real: RealCluster, assistant: Object) -> None:
    chat(real, "interactive")

    logs = kubectl(
        real, "logs", "--namespace", "team", "--selector", "splitpool.dev/class=interactive"
    )
    series = [line for url in router_urls(real) for line in real.get(f"{url}/metrics").splitlines()]

    assert "Traceback" not in logs
    assert logs.strip()
    # One of the routers has served it.
    counted = 'splitpool_router_requests_total{class="interactive",code="200"'
    assert any(line.startswith(counted) for line in series)


def test_events_tell_of_transitions(real: RealCluster, assistant: Object) -> None:
    events = kubectl(real, "get", "events", "--namespace", "team", "--output", "json")
    told = {
        each["reason"]
        for each in json.loads(events)["items"]
        if each["involvedObject"]["kind"] == "InferencePool"
    }

    assert told


def kubectl(real: RealCluster, *args: str) -> str:
    """What kubectl prints when it succeeds."""
    ended = real.kubectl(*args)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def chat(real: RealCluster, latency_class: str) -> dict[str, Any]:
    """What the openai client got in the cluster's network, through the router's Service."""
    settings = os.environ | {"PYTHONPATH": str(CHECKOUT / "tests")}
    program = [sys.executable, "-m", "node.chatting", service_url(real), MODEL, latency_class]
    ended = real.run_inside(program, env=settings)
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    return said


def router_urls(real: RealCluster) -> list[str]:
    """Every ready router by itself."""
    slices = real.admin.listed(
        *("discovery.k8s.io/v1", "EndpointSlice", RELEASE),
        labelSelector="kubernetes.io/service-name=splitpool-router",
    )
    return [
        f"http://{endpoint['addresses'][0]}:{each['ports'][0]['port']}"
        for each in slices
        for endpoint in each["endpoints"]
        if endpoint["conditions"]["ready"]
    ]


def service_url(real: RealCluster) -> str:
    """The router's Service by its address: the machine's own resolver does not know its name."""
    service = real.admin.get("v1", "Service", "splitpool-router", RELEASE)
    return f"http://{service['spec']['clusterIP']}"
