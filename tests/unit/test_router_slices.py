"""EndpointSlices become workers: each once, with its class, its address and whether it leaves."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering import container, names
from splitpool_operator.rendering.roles import roles
from splitpool_router.cluster import slices
from splitpool_router.cluster.slices import UnknownRole, candidates, workers
from splitpool_router.fleet.workers import Endpoint
from splitpool_router.placing.classify import LatencyClass
from unit.pool_files import CPU, changed, pool

INTERACTIVE, BATCH = LatencyClass.INTERACTIVE, LatencyClass.BATCH
READY = {"ready": True, "serving": True, "terminating": False}
STARTING = {"ready": False, "serving": False, "terminating": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}
DRAINING_UNREADY = {"ready": False, "serving": False, "terminating": True}


def address(
    ip: str = "10.0.0.1",
    pod: str | None = "a-1",
    uid: str = "u1",
    conditions: Mapping[str, bool | None] = READY,
) -> dict[str, Any]:
    found: dict[str, Any] = {"addresses": [ip], "conditions": dict(conditions)}
    if pod is not None:
        found["targetRef"] = {"kind": "Pod", "name": pod, "namespace": "default", "uid": uid}
    return found


def piece(*addresses: dict[str, Any], version: int = 1, **changes: Any) -> dict[str, Any]:
    """An EndpointSlice."""
    labels = {
        "kubernetes.io/service-name": "a-interactive",
        slices.POOL_LABEL: "a",
        slices.CLASS_LABEL: changes.pop("role", "interactive"),
    }
    return {
        "metadata": {
            "name": "a-interactive-x",
            "namespace": "default",
            "resourceVersion": str(version),
            "labels": labels,
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": list(addresses),
        **changes,
    }


def found(*pieces: dict[str, Any]) -> tuple[Endpoint, ...]:
    return workers(each for one in pieces for each in candidates(one))


def test_a_pod_of_a_slice_is_a_worker() -> None:
    (worker,) = found(piece(address()))
    assert worker == Endpoint(
        pool="a",
        namespace="default",
        name="a-1",
        classes=frozenset({INTERACTIVE}),
        url="http://10.0.0.1:8000",
        uid="u1",
    )


@pytest.mark.parametrize(
    ("conditions", "leaves"),
    [
        (READY, False),
        (STARTING, False),  # its own /ready says when
        ({"ready": True}, False),
        ({"ready": None, "serving": None, "terminating": None}, False),
        (DRAINING, True),
        (DRAINING_UNREADY, True),  # its streams are still to be found
        # A Service that publishes addresses that are not ready shows a leaving pod as ready.
        ({"ready": True, "serving": True, "terminating": True}, True),
    ],
)
def test_only_the_order_to_end_is_taken_from_a_slice(
    conditions: Mapping[str, bool | None], leaves: bool
) -> None:
    (worker,) = found(piece(address(conditions=conditions)))
    assert worker.terminating is leaves


@pytest.mark.parametrize(
    ("role", "classes"),
    [("interactive", {INTERACTIVE}), ("batch", {BATCH}), ("shared", {INTERACTIVE, BATCH})],
)
def test_the_label_tells_the_classes(role: str, classes: set[LatencyClass]) -> None:
    (worker,) = found(piece(address(), role=role))
    assert worker.classes == classes


def test_a_class_that_nobody_knows_is_named() -> None:
    with pytest.raises(UnknownRole, match="'fast'; known are: interactive, batch, shared"):
        candidates(piece(address(), role="fast"))


def test_what_is_no_slice_is_refused() -> None:
    with pytest.raises(ValidationError):
        candidates({"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "nothing",
    [
        piece(),
        piece(endpoints=None),
        piece(address(), ports=None),
        piece(address(), ports=[]),
        piece(address(), ports=[{"name": "http", "port": None}]),
        piece(address(), ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}]),
        piece(address(), addressType="FQDN"),
        piece({"addresses": [], "conditions": READY}),
    ],
    ids=["empty", "null", "ports-null", "no-ports", "any-port", "unnamed", "fqdn", "no-address"],
)
def test_without_an_address_and_a_port_there_is_no_worker(nothing: dict[str, Any]) -> None:
    assert found(nothing) == ()


def test_a_single_port_needs_no_name_and_of_several_the_named_one_counts() -> None:
    (worker,) = found(piece(address(), ports=[{"port": 9000}]))
    assert worker.url == "http://10.0.0.1:9000"
    ports = [{"name": "metrics", "port": 9100}, {"name": "http", "port": 8000}]
    (worker,) = found(piece(address(), ports=ports))
    assert worker.url == "http://10.0.0.1:8000"


def test_an_ipv6_address_is_bracketed() -> None:
    (worker,) = found(piece(address("fd00::7"), addressType="IPv6"))
    assert worker.url == "http://[fd00::7]:8000"


def test_an_address_without_a_pod_is_named_by_itself() -> None:
    (worker,) = found(piece(address(pod=None)))
    assert (worker.name, worker.uid) == ("10.0.0.1:8000", "")


@pytest.mark.parametrize("turned", [False, True])
def test_a_pod_in_two_slices_is_one_worker_as_the_newer_says(turned: bool) -> None:
    old, new = piece(address(), version=9), piece(address(conditions=DRAINING), version=10)
    (worker,) = found(*((new, old) if turned else (old, new)))
    assert worker.terminating


@pytest.mark.parametrize("turned", [False, True])
def test_a_pod_of_two_families_keeps_its_ipv4_address(turned: bool) -> None:
    four = piece(address(), version=1)
    six = piece(address("fd00::7"), addressType="IPv6", version=2)
    (worker,) = found(*((six, four) if turned else (four, six)))
    assert worker.url == "http://10.0.0.1:8000"


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("gone", "version"), [(READY, 1), (DRAINING, 9)])
def test_an_address_belongs_to_the_pod_that_has_it_now(
    turned: bool, gone: dict[str, bool], version: int
) -> None:
    old = piece(address(pod="old", uid="u0", conditions=gone), version=version)
    new = piece(address(pod="new", uid="u1"), version=5)
    (worker,) = found(*((new, old) if turned else (old, new)))
    assert worker.name == "new"


def test_workers_come_in_the_order_of_their_names() -> None:
    two = piece(address("10.0.0.2", "b", "u2"), address("10.0.0.1", "a", "u1"))
    assert [worker.name for worker in found(two)] == ["a", "b"]


@pytest.mark.parametrize("topology", ["Split", "Shared"])
def test_the_operators_services_are_what_the_router_looks_for(topology: str) -> None:
    made = pool(changed(CPU, {"spec.topology": topology}))
    for role in roles(plan(made, cores=4)):
        labels = names.labels(made, role.name)
        assert labels[slices.POOL_LABEL] == made.metadata.name
        assert slices.ROLES[labels[slices.CLASS_LABEL]] == frozenset(
            LatencyClass(cls) for cls in role.classes
        )
    assert container.PORT_NAME == slices.PORT_NAME
