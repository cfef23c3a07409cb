"""What the router's headers say of a request."""

import re
from uuid import uuid4

from aiohttp import web

from splitpool_worker.api.errors import invalid
from splitpool_worker.api.protocol import Call
from splitpool_worker.config import WorkerConfig
from splitpool_worker.schedule.sequence import LatencyClass

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TIERS = {"flex": LatencyClass.BATCH, "priority": LatencyClass.INTERACTIVE}


def caller_of(request: web.Request) -> str:
    """Who asks: the owner of streams and the salt of the prefix cache."""
    return request.headers.get("X-Splitpool-Caller", "anonymous")


def request_id_of(request: web.Request) -> str:
    """The caller's own id of this request, or a new one."""
    given = request.headers.get("X-Request-Id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex


def resumable(request: web.Request) -> bool:
    """Whether resuming was asked for."""
    return request.headers.get("X-Splitpool-Resumable", "").lower() == "true"


def latency_class(request: web.Request, call: Call, config: WorkerConfig) -> LatencyClass:
    """The class that the router chose; without a router by the same order as there."""
    served = [part.cls for part in config.classes]
    asked = request.headers.get("X-Splitpool-Class")
    if asked is not None:
        if asked not in served:
            allowed = " or ".join(cls.value for cls in served)
            raise invalid(
                "X-Splitpool-Class", f"X-Splitpool-Class is {asked[:40]!r}: here it is {allowed}"
            )
        return LatencyClass(asked)
    wanted = _TIERS.get(call.service_tier or "", LatencyClass.INTERACTIVE)
    return wanted if wanted in served else served[0]
