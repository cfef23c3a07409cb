"""Which workers do EndpointSlices name? Pure: slices in, workers out.

Readiness is not read off them: it is the kubelet's opinion of the same /ready that the router asks
itself, seconds later. What no probe can tell is that a pod is about to go: its worker may say that
it is ready until it gets its signal. It takes nothing new from then on, and stays known while its
address does, whether or not its readiness probe still succeeds: streams that run there are found.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from splitpool_router.fleet.pools import Lenient
from splitpool_router.fleet.workers import Endpoint
from splitpool_router.placing.classify import LatencyClass

POOL_LABEL = "splitpool.dev/pool"
CLASS_LABEL = "splitpool.dev/class"
SELECTOR = f"{POOL_LABEL},{CLASS_LABEL}"
PORT_NAME = "http"

ROLES: Mapping[str, frozenset[LatencyClass]] = {
    "interactive": frozenset({LatencyClass.INTERACTIVE}),
    "batch": frozenset({LatencyClass.BATCH}),
    "shared": frozenset(LatencyClass),
}


class _Conditions(Lenient):
    terminating: bool | None = None


class _Target(Lenient):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Address(Lenient):
    addresses: tuple[str, ...] = ()
    conditions: _Conditions = _Conditions()
    target_ref: _Target = _Target()


class _Port(Lenient):
    name: str | None = None
    port: int | None = None


class _Metadata(Lenient):
    name: str
    namespace: str
    resource_version: str = "0"
    labels: Mapping[str, str] = Field(default_factory=dict)


class _Slice(Lenient):
    metadata: _Metadata
    address_type: str
    endpoints: tuple[_Address, ...] | None = ()
    ports: tuple[_Port, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A worker as one slice names it."""

    endpoint: Endpoint
    family: str
    version: int = field(compare=False)


class UnknownRole(ValueError):
    """A slice carries our labels with a class that does not exist."""


def candidates(manifest: Mapping[str, Any]) -> tuple[Candidate, ...]:
    """The workers of one slice. Raises UnknownRole and pydantic's ValidationError."""
    parsed = _Slice.model_validate(manifest)
    labels = parsed.metadata.labels
    role = labels.get(CLASS_LABEL, "")
    if role not in ROLES:
        raise UnknownRole(f"label {CLASS_LABEL} is {role!r}; known are: {', '.join(ROLES)}")
    port = _port(parsed)
    if port is None or parsed.address_type not in ("IPv4", "IPv6"):
        return ()
    return tuple(
        Candidate(
            endpoint=_endpoint(parsed, each, port, role),
            family=parsed.address_type,
            version=_number(parsed.metadata.resource_version),
        )
        for each in parsed.endpoints or ()
        if each.addresses
    )


def workers(found: Iterable[Candidate]) -> tuple[Endpoint, ...]:
    """Each worker once: a pod may stand in several slices while they are rearranged, and in one
    per address family; an address may still be a dead pod's when its successor has it."""
    by_pod: dict[tuple[str, str, str], Candidate] = {}
    for each in found:
        key = (each.endpoint.namespace, each.endpoint.name, each.endpoint.uid)
        if key not in by_pod or _better_of_pod(each, by_pod[key]):
            by_pod[key] = each
    by_url: dict[str, Candidate] = {}
    for each in by_pod.values():
        url = each.endpoint.url
        if url not in by_url or _better_of_address(each, by_url[url]):
            by_url[url] = each
    endpoints = (each.endpoint for each in by_url.values())
    return tuple(sorted(endpoints, key=lambda each: (each.namespace, each.name, each.uid)))


def _better_of_pod(new: Candidate, old: Candidate) -> bool:
    """One family for good, so that a worker keeps its address; within it the newest slice."""
    if new.family != old.family:
        return new.family == "IPv4"
    return new.version > old.version


def _better_of_address(new: Candidate, old: Candidate) -> bool:
    if new.endpoint.terminating != old.endpoint.terminating:
        return old.endpoint.terminating
    return new.version > old.version


def _endpoint(parsed: _Slice, found: _Address, port: int, role: str) -> Endpoint:
    address = found.addresses[0]
    host = f"[{address}]" if ":" in address else address
    pod = found.target_ref
    return Endpoint(
        pool=parsed.metadata.labels[POOL_LABEL],
        namespace=parsed.metadata.namespace,
        name=pod.name or f"{host}:{port}",
        classes=ROLES[role],
        url=f"http://{host}:{port}",
        uid=pod.uid,
        terminating=bool(found.conditions.terminating),
    )


def _port(parsed: _Slice) -> int | None:
    ports = parsed.ports or ()
    named = [each.port for each in ports if each.name == PORT_NAME or len(ports) == 1]
    return named[0] if named else None


def _number(version: str) -> int:
    """Versions of one kind can be compared as numbers."""
    return int(version) if version.isdecimal() else 0
