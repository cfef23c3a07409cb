"""A child is applied where it does not hold what was planned, and only there."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_operator.cluster.diff import Action, action, holds, owned_by
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from unit.pool_files import CPU, pool

NUMBERS = st.integers(0, 10**6)
LEAVES = st.one_of(NUMBERS, st.text(max_size=8), st.booleans())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def deployment() -> dict[str, Any]:
    of = pool(CPU, {"metadata.uid": "pool-1"})
    made = children(plan(of, cores=1), Installation(worker_image="worker:1"))
    return next(each for each in made if each["kind"] == "Deployment")


def live(**metadata: Any) -> dict[str, Any]:
    """The Deployment as the API server shows it, with defaults and a controller's status."""
    result = copy.deepcopy(deployment())
    result["metadata"] |= {"uid": "u", "resourceVersion": "7"} | metadata
    container = result["spec"]["template"]["spec"]["containers"][0]
    container |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/log"}
    container["env"].append({"name": "ADDED", "value": "by a webhook"})
    container["resources"]["limits"]["memory"] = str(2 * 1024**3)
    result["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    return result | {"status": {"readyReplicas": 1}}


def test_a_child_with_defaults_and_additions_of_others_is_kept() -> None:
    assert action(live(), deployment()) is Action.KEEP


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.replicas", 5),
        ("spec.strategy.rollingUpdate.maxSurge", 1),
        ("spec.template.spec.terminationGracePeriodSeconds", 1),
        ("spec.template.spec.containers", []),
        ("metadata.labels", {}),
    ],
)
def test_an_edited_child_is_applied(path: str, value: Any) -> None:
    edited = live()
    *parents, last = path.split(".")
    node = edited
    for part in parents:
        node = node[part]
    node[last] = value
    assert action(edited, deployment()) is Action.APPLY


def test_arguments_are_compared_in_order_and_whole() -> None:
    edited = live()
    edited["spec"]["template"]["spec"]["containers"][0]["args"].append("--extra")
    assert action(edited, deployment()) is Action.APPLY


def test_a_variable_that_is_gone_or_changed_is_put_back() -> None:
    for change in ([], [{"name": "POD_NAME", "value": "mine"}]):
        edited = live()
        edited["spec"]["template"]["spec"]["containers"][0]["env"] = change
        assert action(edited, deployment()) is Action.APPLY


def test_a_field_that_is_no_longer_declared_is_found_by_the_hash() -> None:
    before = deployment()
    before["metadata"]["annotations"] = {"splitpool.dev/applied": "other"}
    assert action(live(annotations=before["metadata"]["annotations"]), deployment()) is Action.APPLY


@pytest.mark.parametrize(("one", "same"), [("0.2", "200m"), ("1", "1000m"), ("2Gi", "2048Mi")])
def test_quantities_are_compared_by_value(one: str, same: str) -> None:
    assert holds({"limits": {"cpu": same}}, {"limits": {"cpu": one}})
    assert not holds({"limits": {"cpu": "3"}}, {"limits": {"cpu": one}})


def test_text_that_only_looks_like_a_quantity_is_compared_as_text() -> None:
    assert not holds({"args": ["1000m"]}, {"args": ["1"]})


def test_a_missing_child_is_created() -> None:
    assert action(None, deployment()) is Action.CREATE


def owner(**changes: Any) -> dict[str, Any]:
    (reference,) = deployment()["metadata"]["ownerReferences"]
    return dict(reference) | changes


def test_a_child_of_another_owner_is_never_touched() -> None:
    other = owner(kind="Release", name="x", uid="other")
    assert action(live(ownerReferences=[other]), deployment()) is Action.REFUSE
    assert action(live(ownerReferences=[], labels={}), deployment()) is Action.REFUSE


def test_an_orphan_that_carries_our_labels_is_adopted() -> None:
    assert action(live(ownerReferences=[]), deployment()) is Action.APPLY


def test_a_child_of_a_deleted_pool_of_that_name_is_waited_for() -> None:
    assert action(live(ownerReferences=[owner(uid="pool-0")]), deployment()) is Action.WAIT
    assert action(live(deletionTimestamp="now"), deployment()) is Action.WAIT


def test_only_its_own_pools_children_are_a_pools() -> None:
    assert owned_by(live(), "pool-1")
    assert not owned_by(live(), "pool-2")


@given(VALUES)
def test_every_value_holds_itself(value: Any) -> None:
    assert holds(copy.deepcopy(value), value)


@given(st.dictionaries(st.text(), VALUES), st.text(), VALUES)
def test_what_others_add_changes_nothing(declared: dict[str, Any], key: str, more: Any) -> None:
    assert holds({key: more} | declared, declared)
