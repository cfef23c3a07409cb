"""Does an object of the cluster hold what its manifest declares, or has it to be applied?

Pure. The API server fills in defaults and others may add fields, so only what is declared is
compared; quantities are compared by value ("0.2" is "200m").
"""

from enum import Enum, auto
from typing import Any

from splitpool_operator.rendering import names
from splitpool_quantity.quantity import QuantityError, parse

# The key by which server-side apply merges a list of objects; other lists are replaced whole.
_LIST_KEYS = ("name", "mountPath", "containerPort", "port", "uid")
_QUANTITIES = frozenset({"requests", "limits"})


class Action(Enum):
    """What is to be done about a planned child."""

    CREATE = auto()
    APPLY = auto()
    KEEP = auto()
    # Something else owns the name.
    REFUSE = auto()
    # A deleted pool's child of that name is about to go.
    WAIT = auto()


def action(live: dict[str, Any] | None, manifest: dict[str, Any]) -> Action:
    """How the live object becomes the manifest's."""
    if live is None:
        return Action.CREATE
    metadata = live["metadata"]
    if metadata.get("deletionTimestamp"):
        return Action.WAIT
    (owner,) = manifest["metadata"]["ownerReferences"]
    controller = _controller(metadata)
    if controller is None:
        ours = metadata.get("labels", {}).get(names.MANAGED_BY) == names.MANAGER
        return Action.APPLY if ours else Action.REFUSE
    if controller["uid"] != owner["uid"]:
        predecessor = all(controller.get(key) == owner[key] for key in ("kind", "name"))
        return Action.WAIT if predecessor else Action.REFUSE
    return Action.KEEP if holds(live, manifest) else Action.APPLY


def owned_by(live: dict[str, Any], uid: str) -> bool:
    """Whether the object is controlled by that pool."""
    controller = _controller(live["metadata"])
    return controller is not None and controller.get("uid") == uid


def owner(live: dict[str, Any]) -> str:
    """Whose an object is, in words: its controller's, or that of whoever wrote it first."""
    controller = _controller(live["metadata"])
    if controller is not None:
        return f"{controller['kind']} {controller['name']}"
    writers = live["metadata"].get("managedFields") or []
    names_by_age = [each.get("manager", "") for each in sorted(writers, key=_written)]
    return f"nobody (first written by {next(filter(None, names_by_age), 'an unknown client')})"


def holds(live: Any, declared: Any, field: str = "") -> bool:
    """Whether everything declared is in the live value."""
    if isinstance(declared, dict):
        return isinstance(live or {}, dict) and all(
            holds((live or {}).get(key), value, _context(field, key))
            for key, value in declared.items()
        )
    if isinstance(declared, list):
        return isinstance(live or [], list) and _list_holds(live or [], declared, field)
    if live == declared:
        return True
    return field in _QUANTITIES and _same_quantity(live, declared)


def _context(field: str, key: str) -> str:
    """Inside requests and limits every value is a quantity, whatever its key."""
    return field if field in _QUANTITIES else key


def _list_holds(live: list[Any], declared: list[Any], field: str) -> bool:
    key = _merge_key(declared)
    if key is None:
        return len(live) == len(declared) and all(
            holds(one, other, field) for one, other in zip(live, declared, strict=True)
        )
    present = {each.get(key): each for each in live if isinstance(each, dict)}
    return all(holds(present.get(each[key]), each, field) for each in declared)


def _merge_key(declared: list[Any]) -> str | None:
    if not declared or not all(isinstance(each, dict) for each in declared):
        return None
    return next((key for key in _LIST_KEYS if all(key in each for each in declared)), None)


def _same_quantity(live: Any, declared: Any) -> bool:
    try:
        return parse(str(live)) == parse(str(declared))
    except QuantityError:
        return False


def _written(entry: dict[str, Any]) -> str:
    return str(entry.get("time", ""))


def _controller(metadata: dict[str, Any]) -> dict[str, Any] | None:
    references: list[dict[str, Any]] = metadata.get("ownerReferences") or []
    return next((each for each in references if each.get("controller")), None)
