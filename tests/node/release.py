"""The project's own chart on the node: who installs it, and how its router is reached."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster import helm
from cluster.api import Object
from node.cluster import RealCluster
from node.pods import is_ready, lasting

RELEASE = "splitpool"
ROUTER = "splitpool-router"
ROUTER_PORT = 8080
OPERATOR = "splitpool-operator"
# Images are pulled and a model is loaded on a machine that does much else.
PATIENCE = "600s"
_TESTS = Path(__file__).parents[1]


def install(real: RealCluster, images: Mapping[str, str]) -> None:
    """Helm installs the chart with these images, into a namespace of the release's name."""
    installed = real.helm(
        *("install", RELEASE, str(helm.CHART), "--namespace", RELEASE, "--create-namespace"),
        *("--wait", "--timeout", PATIENCE, *helm.images(images)),
    )
    assert installed.returncode == 0, installed.stderr


def kubectl(real: RealCluster, *args: str) -> str:
    """What kubectl prints when it succeeds."""
    ended = real.kubectl(*args)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def restart(real: RealCluster, deployment: str) -> None:
    """New pods of one of the release's Deployments have taken over; old ones may still end."""
    there = (f"deployment/{deployment}", "--namespace", RELEASE)
    kubectl(real, "rollout", "restart", *there)
    kubectl(real, "rollout", "status", *there, f"--timeout={PATIENCE}")


def pods_of(real: RealCluster, component: str) -> list[Object]:
    """The release's pods of the operator or the router, without those that end."""
    label = f"app.kubernetes.io/component={component}"
    listed = real.admin.listed("v1", "Pod", RELEASE, labelSelector=label)
    return lasting(listed)


def program(module: str, *args: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of one of the tests' own programs, for `RealCluster.inside`."""
    return [sys.executable, "-m", module, *args], os.environ | {"PYTHONPATH": str(_TESTS)}


@contextlib.contextmanager
def talking(real: RealCluster, module: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    """Such a program in the cluster's network, told and asked by lines; ended with the block."""
    command, settings = program(module, *args)
    with subprocess.Popen(
        real.inside(command),
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def service_url(real: RealCluster) -> str:
    """The router's Service by its address: the machine's own resolver does not know its name."""
    service = real.admin.get("v1", "Service", ROUTER, RELEASE)
    return f"http://{service['spec']['clusterIP']}"


def router_urls(real: RealCluster) -> list[str]:
    """Every ready router by itself."""
    return [router_url(each) for each in pods_of(real, "router") if is_ready(each)]


def router_url(pod: Object) -> str:
    """A router by its pod's address."""
    return f"http://{pod['status']['podIP']}:{ROUTER_PORT}"
