"""The project's own images on the node: installed by Helm, a pool applied, an answer streamed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.api import Object
from node.cluster import RealCluster
from node.release import PATIENCE, kubectl, program, router_urls, service_url
from splitpool_quantity.quantity import to_bytes

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2.yaml"
MODEL = "smollm2-135m-instruct"


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
    of_pool = [
        each
        for each in json.loads(events)["items"]
        if each["involvedObject"]["kind"] == "InferencePool"
    ]
    of_pool.sort(key=lambda each: str(each["firstTimestamp"]))

    # Steps in between belong to every start, and what does not change is not told again.
    told = [(each["type"], each["reason"], each["count"]) for each in of_pool]
    assert told == [("Normal", "Creating", 1), ("Normal", "Serving", 1)]


def chat(real: RealCluster, latency_class: str) -> dict[str, Any]:
    """What the openai client got in the cluster's network, through the router's Service."""
    command, settings = program("node.chatting", service_url(real), MODEL, latency_class)
    ended = real.run_inside(command, env=settings)
    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout)
    return said
