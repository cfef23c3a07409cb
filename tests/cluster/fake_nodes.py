"""Nodes without machines: what a kubelet would tell the API server, told by the tests.

Pods that the scheduler binds to these nodes become ready at once, unless the test chose another
`Fate` for them; deleted pods go away. Everything goes through the API, as the user `fake-kubelet`.

    nodes.add("gpu-0", {"nvidia.com/gpu": "8"})
    nodes.add("gpu-1", devices=[gpu_device("gpu-0", "80Gi")])
    nodes.befall(Fate.CRASH_LOOP, namespace=namespace, labels={"app": "web"})
"""

import contextlib
import datetime
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import urllib3

from cluster import nodes as objects
from cluster.api import Api, ApiError, Object, events
from cluster.pod_states import Fate, status

KUBELET = "fake-kubelet"
_HEARTBEAT_SECONDS = 10.0
_ON_NODES = {"fieldSelector": "spec.nodeName!="}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    fate: Fate
    namespace: str
    labels: Mapping[str, str]

    def covers(self, pod: Object) -> bool:
        meta = pod["metadata"]
        here = meta.get("labels", {}).items()
        return bool(meta["namespace"] == self.namespace and self.labels.items() <= here)


class FakeNodes:
    """The nodes of one test and the pods on them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: list[Object] = []
        self._names: dict[str, str] = {}
        self._choices: list[_Choice] = []
        self._pods: dict[str, Object] = {}
        self._told: dict[str, tuple[Fate, bool]] = {}
        self._addresses: dict[str, str] = {}
        self._free: Iterator[str] = (f"10.128.{n // 250}.{n % 250 + 1}" for n in itertools.count())
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._watch: urllib3.BaseHTTPResponse | None = None
        self._threads = [
            threading.Thread(target=self._follow_pods, name="fake-kubelet"),
            threading.Thread(target=self._beat, name="fake-heartbeat"),
        ]

    def add(
        self,
        name: str,
        capacity: Mapping[str, str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        devices: Sequence[Object] = (),
    ) -> None:
        """A ready node, with more capacity than a plain one and with devices of NVIDIA's driver."""
        node = objects.node(name, labels or {})
        self._create(node)
        with self._lock:
            address = self._names[name] = next(self._free)
        self._create(objects.lease(name, _now("microseconds")))
        self._api.patch(
            node, {"status": objects.node_status(capacity or {}, address, _now())}, "status"
        )
        if devices:
            self._create(objects.device_class())
            self._create(objects.resource_slice(name, devices))

    def befall(
        self, fate: Fate, *, namespace: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """What befalls pods of a namespace, with some labels, from now on; the last choice counts.

        Pods that are there already have their new status when this returns.
        """
        with self._lock:
            self._choices.append(_Choice(fate=fate, namespace=namespace, labels=labels or {}))
            for pod in list(self._pods.values()):
                self._settle(pod)

    def lend(self, address: str, count: int) -> None:
        """Give so many of the coming pods an address at which something of the test answers."""
        with self._lock:
            self._free = itertools.chain(itertools.repeat(address, count), self._free)

    def start(self) -> None:
        """Begin to play the kubelets."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop playing, and remove the nodes with their pods, leases and devices."""
        self._ended.set()
        with self._lock:
            if self._watch is not None:
                self._watch.shutdown()
        for thread in self._threads:
            thread.join()
        for pod in self._api.listed("v1", "Pod", **_ON_NODES):
            if pod["spec"]["nodeName"] in self._names:
                self._api.delete({"apiVersion": "v1", "kind": "Pod", **pod}, grace_seconds=0)
        for each in reversed(self._made):
            self._api.delete(each)

    def _create(self, obj: Object) -> None:
        """Create it unless an earlier call has; it is removed at the end."""
        if obj not in self._made:
            self._api.create(obj)
            self._made.append(obj)

    def _renew(self, name: str) -> None:
        self._api.apply(objects.lease(name, _now("microseconds")))

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_SECONDS):
            with self._lock:
                names = sorted(self._names)
            for name in names:
                with contextlib.suppress(ApiError, urllib3.exceptions.HTTPError):
                    self._renew(name)

    def _follow_pods(self) -> None:
        """List, then watch, and again whenever the watch ends or the API server is away."""
        while not self._ended.is_set():
            try:
                with contextlib.suppress(ApiError, urllib3.exceptions.HTTPError):
                    self._follow_once()
            except ValueError:
                # At the end a watch is cut, be it in the middle of an event.
                if not self._ended.is_set():
                    raise
            self._ended.wait(0.1)

    def _follow_once(self) -> None:
        path = self._api.resource("v1", "Pod").path(None)
        found = self._api.request("GET", path, query=_ON_NODES)
        with self._lock:
            self._pods = {}
            for pod in found["items"]:
                self._seen(pod)
        version = found["metadata"]["resourceVersion"]
        for kind, pod in self._watched(path, version):
            with self._lock:
                if kind == "DELETED":
                    self._pods.pop(pod["metadata"]["uid"], None)
                else:
                    self._seen(pod)

    def _watched(self, path: str, version: str) -> Iterator[tuple[str, Object]]:
        response = self._api.watch(path, {**_ON_NODES, "resourceVersion": version})
        with self._lock:
            self._watch = response
            if self._ended.is_set():
                response.shutdown()
        try:
            for event in events(response):
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]
        finally:
            with self._lock:
                self._watch = None
            response.close()

    def _seen(self, pod: Object) -> None:
        if pod["spec"].get("nodeName") in self._names:
            self._pods[pod["metadata"]["uid"]] = pod
            self._settle(pod)

    def _settle(self, pod: Object) -> None:
        """Bring the pod's status to its fate; called with the lock held."""
        fate = self._fate(pod)
        pod = {"apiVersion": "v1", "kind": "Pod", **pod}
        leaves = "deletionTimestamp" in pod["metadata"]
        try:
            if leaves and fate != Fate.LINGERING:
                self._api.delete(pod, grace_seconds=0)
            elif self._told.get(pod["metadata"]["uid"]) != (fate, leaves):
                self._tell(pod, fate)
                self._told[pod["metadata"]["uid"]] = fate, leaves
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _fate(self, pod: Object) -> Fate:
        chosen = (each.fate for each in reversed(self._choices) if each.covers(pod))
        return next(chosen, Fate.READY)

    def _tell(self, pod: Object, fate: Fate) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if uid not in self._addresses:
            self._addresses[uid] = next(self._free)
        told = status(pod, fate, ip=self._addresses[uid], host_ip=self._names[node], now=_now())
        self._api.patch(pod, {"status": told}, "status")


def _now(precision: str = "seconds") -> str:
    moment = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    return moment.isoformat(timespec=precision) + "Z"


@contextlib.contextmanager
def playing(api: Api) -> Iterator[FakeNodes]:
    """Fake nodes until the end of the block."""
    fakes = FakeNodes(api)
    fakes.start()
    try:
        yield fakes
    finally:
        fakes.close()
