"""What does the API server say of an InferencePool, and what do pool files' readers?"""

from typing import Any

from cluster.api import Api, ApiError, Object
from splitpool_operator.declaration.pool import from_object
from splitpool_quantity.quantity import QuantityError, to_bytes
from unit.pool_files import problems

PATH = "/apis/splitpool.dev/v1alpha1/namespaces/default/inferencepools"
STRICT_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}


def refusal(api: Api, pool: Object) -> ApiError | None:
    """Why the API server would not take it, or None."""
    try:
        filled(api, pool)
    except ApiError as error:
        return error
    return None


def filled(api: Api, pool: Object) -> Object:
    """What it would store, with its defaults; nothing is stored. Raises ApiError."""
    return api.request("POST", PATH, pool, query=STRICT_DRY_RUN)


def taken_from_a_file(pool: Object) -> bool:
    """Whether a file may declare it."""
    return problems(pool) == []


def read_by_the_operator(pool: Object) -> Object:
    """The spec as the operator understands it, defaults filled in."""
    spec: Object = from_object(pool).model_dump(by_alias=True, exclude_none=True)["spec"]
    return spec


def plain(value: Any, name: str = "") -> Any:
    """A value to compare: without empty parts, and with quantities as bytes."""
    if isinstance(value, dict):
        parts = {key: plain(each, key) for key, each in value.items()}
        return {key: each for key, each in parts.items() if each not in ({}, [])}
    if isinstance(value, list):
        return [plain(each, name) for each in value]
    if name in {"vram", "memory", "headroom", "hostMemory", "bufferBytes"}:
        return _bytes(value)
    return value


def _bytes(value: Any) -> Any:
    try:
        return to_bytes(str(value))
    except QuantityError:
        return value
