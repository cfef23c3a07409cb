"""The tests' own node runs pods as a node of a user's cluster does."""

from pathlib import Path

import pytest
import urllib3

from cluster.api import Object, eventually
from node.cluster import RealCluster
from node.configuration import NODE
from node.pod_image import IMAGE
from node.pods import PORT, is_ready, is_refused, phase, pod, server, service, volume_and_claim

MOUNT = {"name": "model", "mountPath": "/model", "readOnly": True}
HELLO = "hello from web\n"


@pytest.fixture
def web(real: RealCluster, namespace: str) -> Object:
    """A ready pod that answers HTTP, behind a Service of its name."""
    made = real.admin.create(server("web", namespace))
    eventually(lambda: is_ready(real.admin.reread(made)), "the pod is ready")
    return real.admin.reread(made)


@pytest.fixture
def web_service(real: RealCluster, web: Object) -> Object:
    """The Service of it, once the node knows it."""
    made = real.admin.create(service("web", web["metadata"]["namespace"]))
    url = f"http://{made['spec']['clusterIP']}/"
    eventually(lambda: real.run_inside(real.asking(url)).stdout == HELLO, "the Service answers")
    return made


def test_a_hardened_pod_is_ready_when_its_probe_answers_and_logs_and_exec_work(
    real: RealCluster, web: Object
) -> None:
    there = ("web", "--namespace", web["metadata"]["namespace"])

    logged = real.kubectl("logs", *there)
    executed = real.kubectl("exec", *there, "--", "/pod", "get", f"http://127.0.0.1:{PORT}")

    assert logged.stdout == f"serving on :{PORT}\n", logged.stderr
    assert executed.stdout == HELLO, executed.stderr


def test_a_pod_asks_a_service_by_its_name(real: RealCluster, web_service: Object) -> None:
    namespace = web_service["metadata"]["namespace"]
    url = f"http://web.{namespace}.svc.cluster.local/"

    assert said(real, pod("asking", namespace, ["get", url])) == HELLO


def test_pods_and_services_answer_in_the_clusters_network_and_node_ports_on_this_machine(
    real: RealCluster, web: Object, web_service: Object
) -> None:
    port = web_service["spec"]["ports"][0]["nodePort"]

    def through_the_node() -> str:
        return urllib3.request("GET", f"http://{real.address}:{port}/").data.decode()

    assert real.get(f"http://{web['status']['podIP']}:{PORT}/") == HELLO
    assert real.get(f"http://{web_service['spec']['clusterIP']}/") == HELLO
    assert through_the_node() == HELLO


def test_a_pod_reaches_the_api_server_by_its_name(real: RealCluster, namespace: str) -> None:
    asking = pod("asking", namespace, ["get", "https://kubernetes.default.svc/version"])

    assert '"gitVersion"' in said(real, asking)


def test_a_pod_over_its_memory_limit_is_killed(real: RealCluster, namespace: str) -> None:
    limits = {"limits": {"memory": "32Mi"}}
    made = real.admin.create(pod("hungry", namespace, ["eat"], resources=limits))

    eventually(lambda: phase(real.admin.reread(made)) == "Failed", "the pod has ended")

    (status,) = real.admin.reread(made)["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_an_image_is_a_volume(real: RealCluster, namespace: str) -> None:
    made = pod("reading", namespace, ["list", "/model"], volumeMounts=[MOUNT])
    made["spec"]["volumes"] = [{"name": "model", "image": {"reference": IMAGE}}]

    assert said(real, made) == "pod\n"


def test_a_claim_gets_a_folder_of_the_machine(
    real: RealCluster, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "model.bin").touch()
    tmp_path.chmod(0o755)
    for each in volume_and_claim(f"models-{namespace}", namespace, tmp_path):
        real.admin.create(each)
    made = pod("reading", namespace, ["list", "/model"], volumeMounts=[MOUNT])
    claim = {"claimName": f"models-{namespace}"}
    made["spec"]["volumes"] = [{"name": "model", "persistentVolumeClaim": claim}]

    assert said(real, made) == "model.bin\n"


def test_devices_of_the_node_are_counted(real: RealCluster, namespace: str) -> None:
    node = real.admin.get("v1", "Node", NODE)
    gpus = {"nvidia.com/gpu": "1"}
    real.admin.patch(node, {"status": {"capacity": gpus, "allocatable": gpus}}, "status")
    gpu = {"limits": gpus}
    first = real.admin.create(pod("first", namespace, ["serve", ":1"], resources=gpu))
    eventually(lambda: phase(real.admin.reread(first)) == "Running", "the first pod runs")

    second = real.admin.create(pod("second", namespace, ["serve", ":1"], resources=gpu))

    eventually(lambda: is_refused(real.admin.reread(second)), "the second pod finds no room")


def said(real: RealCluster, asking: Object) -> str:
    """What a pod has said when it ended well."""
    made = real.admin.create(asking)
    eventually(lambda: phase(real.admin.reread(made)) in ("Succeeded", "Failed"), "it has ended")
    logged = real.kubectl(
        "logs", made["metadata"]["name"], "--namespace", made["metadata"]["namespace"]
    )
    assert phase(real.admin.reread(made)) == "Succeeded", logged.stdout + logged.stderr
    return logged.stdout
