"""Pods whose workers answer: fake workers, with the objects that slices are made of.

The Services are the operator's own, the EndpointSlices are made by the real controller. An API
server takes no loopback address for a pod, so the workers listen on another one of the machine's.
"""

import contextlib
import datetime
import os
import socket
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from cluster import nodes
from cluster.api import Api, Object
from fakes.fake_worker import FakeWorker
from splitpool_operator.declaration.pool import InferencePool, from_object
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering import names
from splitpool_operator.rendering.manifests import service
from splitpool_operator.rendering.roles import roles
from unit.pool_files import CPU, changed

NODE = "served"


class ServedPods:
    """The workers of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.namespace = namespace
        self._api = api
        self._address = own_address()
        self._pods: dict[FakeWorker, Object] = {}

    def declare(self, name: str = "assistant", model: str = "tiny") -> Object:
        """A pool with the Services of its workers; what is returned is the pool."""
        place = {"metadata.name": name, "metadata.namespace": self.namespace}
        made = self._api.create(changed(CPU, place | {"spec.model.name": model}))
        pool = read(made)
        for role in roles(plan(pool, cores=2)):
            self._api.create(service(pool, role))
        return made

    async def add(self, pool: Object, role: str = "interactive", number: int = 0) -> FakeWorker:
        """One more worker, ready at once."""
        classes = ("interactive", "batch") if role == "shared" else (role,)
        worker = FakeWorker(
            name=f"{names.child(read(pool), role)}-{number}",
            pool=pool["metadata"]["name"],
            namespace=self.namespace,
            host=self._address,
            classes=classes,
        )
        await worker.start()
        made = self._api.create(self._pod(worker, read(pool), role))
        self._pods[worker] = {"apiVersion": "v1", "kind": "Pod", **made}
        self.report(worker, ready=True)
        return worker

    def report(self, worker: FakeWorker, *, ready: bool) -> None:
        """What the kubelet says of its pod."""
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": "Running", "conditions": conditions, "podIP": self._address}
        self._api.patch(
            self._pods[worker], {"status": status | {"podIPs": [{"ip": self._address}]}}, "status"
        )

    def order_to_end(self, worker: FakeWorker) -> None:
        """Its pod is deleted and drains: nobody ends it."""
        self._api.delete(self._pods[worker], grace_seconds=300)

    def end(self, worker: FakeWorker) -> None:
        """Its pod is gone."""
        self._api.delete(self._pods[worker], grace_seconds=0)

    async def close(self) -> None:
        """Ends all of them."""
        for worker in self._pods:
            self.end(worker)
            await worker.stop()

    def _pod(self, worker: FakeWorker, pool: InferencePool, role: str) -> Object:
        port = int(worker.url.rpartition(":")[2])
        container = {
            "name": "worker",
            "image": "example.com/worker:1",
            "ports": [{"name": "http", "containerPort": port}],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": worker.name,
                "namespace": self.namespace,
                "labels": names.labels(pool, role),
            },
            "spec": {"nodeName": NODE, "containers": [container]},
        }


def read(pool: Object) -> InferencePool:
    """The pool as the operator reads it."""
    return from_object(pool)


def own_address() -> str:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("198.51.100.1", 9))
        except OSError:
            _nowhere("this machine has no other address than loopback")
        return str(asking.getsockname()[0])


def _nowhere(why: str) -> NoReturn:
    """A machine of CI that lacks an address is set up wrongly: nothing would be tested there."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@contextlib.asynccontextmanager
async def served_pods(api: Api, namespace: str) -> AsyncIterator[ServedPods]:
    """Pods of a namespace on a node of their own, until the end of the block."""
    pods = ServedPods(api, namespace)
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    # The pods of other tests must not be put there.
    node = api.apply(nodes.node(NODE, {}) | {"spec": {"unschedulable": True}})
    lease = api.apply(nodes.lease(NODE, now.isoformat(timespec="microseconds") + "Z"))
    said = nodes.node_status({}, own_address(), now.isoformat(timespec="seconds") + "Z")
    api.patch({"apiVersion": "v1", "kind": "Node", **node}, {"status": said}, "status")
    try:
        yield pods
    finally:
        await pods.close()
        for pod in api.listed("v1", "Pod", fieldSelector=f"spec.nodeName={NODE}"):
            api.delete({"apiVersion": "v1", "kind": "Pod", **pod}, grace_seconds=0)
        for each in (lease, node):
            api.delete(each)
