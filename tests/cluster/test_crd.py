"""The CRD on a real API server: taken, served under its names, and safe beside its namesake."""

import json
from pathlib import Path

import pytest

from cluster import crds
from cluster.api import Api, ApiError, Object
from cluster.control_plane import ControlPlane
from unit.pool_files import CPU, GPU, changed

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def in_namespace(base: Object, namespace: str) -> Object:
    """The declaration as an object of a namespace."""
    return changed(base, {"metadata.namespace": namespace})


def test_it_is_established_and_structural(admin: Api) -> None:
    crd = admin.reread(crds.own())

    assert crds.condition(crd, "Established") == "True"
    assert crds.condition(crd, "NamesAccepted") == "True"
    assert crds.condition(crd, "NonStructuralSchema") == ""
    assert len(crds.FILE.read_bytes()) < 100_000


@pytest.mark.parametrize("name", ["spl", "inferencepools.splitpool.dev", "splitpool"])
def test_kubectl_finds_pools_by_short_name_full_name_and_category(
    control_plane: ControlPlane, admin: Api, namespace: str, name: str
) -> None:
    admin.create(in_namespace(CPU, namespace))

    header, row = control_plane.kubectl("get", name, "-n", namespace).stdout.splitlines()

    assert header.split() == [
        "NAME",
        "MODEL",
        "INTERACTIVE",
        "BATCH",
        "TTFT-P99",
        "ENFORCEMENT",
        "READY",
        "AGE",
    ]
    assert row.split()[:2] == ["assistant", "smollm2"]


def test_columns_show_the_status(control_plane: ControlPlane, admin: Api, namespace: str) -> None:
    made = admin.create(in_namespace(CPU, namespace))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Serving",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "enforcement": "Cgroup",
        "pools": {
            "interactive": {"summary": "2/2", "ttftP99": "240ms"},
            "batch": {"summary": "1/2"},
        },
        "conditions": [ready],
    }
    admin.patch(made, {"status": status}, "status")

    row = control_plane.kubectl("get", "spl", "-n", namespace).stdout.splitlines()[1]

    assert row.split()[:7] == ["assistant", "smollm2", "2/2", "1/2", "240ms", "Cgroup", "True"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("spl", "One model, served by an interactive and a batch pool"),
        ("spl.spec.pools.interactive.vram", "Hard quota of one worker"),
        ("spl.spec.accelerator.type", "ENUM:\n    nvidia\n    amd\n    cpu"),
        ("spl.status.conditions", "<[]Object>"),
    ],
)
def test_kubectl_explains_fields(control_plane: ControlPlane, path: str, words: str) -> None:
    said = control_plane.kubectl("explain", path)

    assert words in said.stdout, said.stderr


def test_only_the_status_subresource_changes_the_status(admin: Api, namespace: str) -> None:
    made = admin.create(in_namespace(CPU, namespace) | {"status": {"enforcement": "Cgroup"}})
    assert "status" not in made

    changes = {"spec": {"topology": "Shared"}, "status": {"enforcement": "Cgroup"}}
    after = admin.patch(made, changes, "status")

    assert after["status"] == {"enforcement": "Cgroup"}
    assert after["spec"]["topology"] == "Split"
    assert after["metadata"]["generation"] == 1


def test_conditions_are_merged_by_type(admin: Api, namespace: str) -> None:
    made = admin.create(in_namespace(CPU, namespace))
    identity = {
        key: made[key] if key != "metadata" else {"name": "assistant", "namespace": namespace}
        for key in ("apiVersion", "kind", "metadata")
    }
    for kind in ("Ready", "Stalled"):
        condition = {
            "type": kind,
            "status": "False",
            "reason": "New",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {"status": {"conditions": [condition]}}
        admin.apply(identity | status, "status", fieldManager=f"writer-of-{kind}")

    kinds = [each["type"] for each in admin.reread(made)["status"]["conditions"]]
    assert sorted(kinds) == ["Ready", "Stalled"]


def test_the_type_of_accelerator_is_immutable_and_the_model_is_not(
    admin: Api, namespace: str
) -> None:
    made = admin.create(in_namespace(GPU, namespace))

    with pytest.raises(ApiError, match="the type is immutable") as refusal:
        admin.patch(made, {"spec": {"accelerator": {"type": "amd"}}})
    after = admin.patch(made, {"spec": {"model": {"name": "other"}}})

    assert [each.field for each in refusal.value.problems] == ["spec.accelerator.type"]
    assert after["metadata"]["generation"] == 2


def test_fields_that_are_not_known_are_dropped_where_nobody_asks_for_strictness(
    admin: Api, namespace: str
) -> None:
    made = admin.create(
        changed(in_namespace(CPU, namespace), {"spec.colour": "red"}), fieldValidation="Ignore"
    )

    assert "colour" not in made["spec"]


def test_the_namesake_of_the_gateway_api_lives_beside_it(
    control_plane: ControlPlane, admin: Api, namespace: str
) -> None:
    crds.install(admin, crds.NAMESAKE)
    try:
        admin.create(in_namespace(CPU, namespace))
        theirs = {
            "apiVersion": "inference.networking.k8s.io/v1",
            "kind": "InferencePool",
            "metadata": {"name": "theirs", "namespace": namespace},
        }
        admin.create(theirs)

        assert names_of(control_plane, "spl", namespace) == ["assistant"]
        assert names_of(control_plane, "inferencepools.splitpool.dev", namespace) == ["assistant"]
        assert names_of(control_plane, "infpool", namespace) == ["theirs"]
    finally:
        admin.delete(crds.NAMESAKE)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_applied_as_they_are(
    control_plane: ControlPlane, namespace: str, file: Path
) -> None:
    first = control_plane.kubectl("apply", "-n", namespace, "-f", str(file))
    second = control_plane.kubectl("apply", "-n", namespace, "-f", str(file))

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.endswith(" created\n")
    assert second.stdout.endswith(" unchanged\n")


def names_of(plane: ControlPlane, kind: str, namespace: str) -> list[str]:
    """The names of the objects that kubectl finds."""
    said = plane.kubectl("get", kind, "-n", namespace, "-o", "json")
    return [each["metadata"]["name"] for each in json.loads(said.stdout)["items"]]
