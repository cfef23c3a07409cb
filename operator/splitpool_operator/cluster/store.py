"""What does the cluster hold, as far as it was seen? Fed by watches, listings and own writes.

Pure: no I/O. Resource versions of one kind are comparable numbers, so that what was seen later
wins whatever way it came.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from splitpool_operator.cluster.kinds import DEPLOYMENT, POD, POOL, Kind
from splitpool_operator.rendering import names

FIELD_OWNER = "splitpool-operator"
# An answer to a write may come after the news that the object was deleted meanwhile.
_REMEMBERED_DEAD = 1000
Key = tuple[str, str]
Object = dict[str, Any]


class Store:
    """Objects by kind, and of each pool its children and their pods."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Object]] = defaultdict(dict)
        self._of_pool: dict[Key, dict[Kind, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self._by_model: dict[str, set[Key]] = defaultdict(set)
        # By uid, which no later object has; in the order in which they went.
        self._dead: dict[str, None] = {}

    def put(self, kind: Kind, seen: Object) -> bool:
        """Remember an object; False where the same or a later state is known already."""
        if seen["metadata"]["uid"] in self._dead:
            return False
        known = self._objects[kind].get(_key(seen))
        if known is not None and _version(known) >= _version(seen):
            return False
        if known is not None:
            self._unlink(kind, known)
        self._objects[kind][_key(seen)] = _slim(kind, seen)
        self._link(kind, seen)
        return True

    def drop(self, kind: Kind, gone: Object) -> None:
        """Forget an object, unless one of the same name has taken its place."""
        self._bury(gone["metadata"]["uid"])
        known = self._objects[kind].get(_key(gone))
        if known is not None and known["metadata"]["uid"] == gone["metadata"]["uid"]:
            self._unlink(kind, known)
            del self._objects[kind][_key(gone)]

    def replace(self, kind: Kind, listed: Iterable[Object], version: int) -> set[Key]:
        """Take over a complete listing; the pools that something had been missed of."""
        present, missed = set(), set()
        for each in listed:
            present.add(_key(each))
            if self.put(kind, each):
                missed.add(pool_of(kind, each))
        for key, known in list(self._objects[kind].items()):
            if key not in present and _version(known) <= version:
                missed.add(pool_of(kind, known))
                self.drop(kind, known)
        return {key for key in missed if key is not None}

    def pool(self, key: Key) -> Object | None:
        """The pool of that name."""
        return self._objects[POOL].get(key)

    def pools(self) -> list[Key]:
        """Every pool in scope."""
        return list(self._objects[POOL])

    def serving(self, model: str) -> list[Object]:
        """The pools that serve a model of that name."""
        return [self._objects[POOL][key] for key in sorted(self._by_model.get(model, ()))]

    def get(self, kind: Kind, key: Key) -> Object | None:
        """One object."""
        return self._objects[kind].get(key)

    def of_pool(self, kind: Kind, pool: Key) -> list[Object]:
        """The objects of a kind that are labelled as that pool's, by name."""
        keys = self._of_pool[pool][kind] if pool in self._of_pool else set()
        return [self._objects[kind][key] for key in sorted(keys)]

    def sizes(self) -> dict[str, int]:
        """How many entries each part holds."""
        return {
            "pools": len(self._objects[POOL]),
            "objects": sum(map(len, self._objects.values())),
            "indexed": len(self._of_pool) + len(self._by_model),
            "dead": len(self._dead),
        }

    def _bury(self, uid: str) -> None:
        self._dead[uid] = None
        if len(self._dead) > _REMEMBERED_DEAD:
            del self._dead[next(iter(self._dead))]

    def _link(self, kind: Kind, seen: Object) -> None:
        pool = pool_of(kind, seen)
        if kind is POOL:
            self._by_model[model_of(seen)].add(_key(seen))
        elif pool is not None:
            self._of_pool[pool][kind].add(_key(seen))

    def _unlink(self, kind: Kind, known: Object) -> None:
        pool = pool_of(kind, known)
        if kind is POOL:
            self._by_model[model_of(known)].discard(_key(known))
            if not self._by_model[model_of(known)]:
                del self._by_model[model_of(known)]
        elif pool in self._of_pool:
            self._of_pool[pool][kind].discard(_key(known))
            if not any(self._of_pool[pool].values()):
                del self._of_pool[pool]


def model_of(pool: Object) -> str:
    """What clients call the model of a pool; a pool of another version may have none."""
    return str(((pool.get("spec") or {}).get("model") or {}).get("name", ""))


def pool_of(kind: Kind, seen: Object) -> Key | None:
    """The pool that an object is or belongs to, by its label."""
    namespace, name = _key(seen)
    if kind is POOL:
        return namespace, name
    label = (seen["metadata"].get("labels") or {}).get(names.POOL)
    return (namespace, label) if label else None


def _key(seen: Object) -> Key:
    return seen["metadata"].get("namespace", ""), seen["metadata"]["name"]


def _version(seen: Object) -> int:
    return int(seen["metadata"]["resourceVersion"])


def _slim(kind: Kind, seen: Object) -> Object:
    """Without what nobody reads and takes the most memory."""
    metadata = {key: value for key, value in seen["metadata"].items() if key != "managedFields"}
    if kind is POD:
        return {"metadata": metadata, "status": seen.get("status") or {}}
    if kind is DEPLOYMENT:
        owners = seen["metadata"].get("managedFields") or []
        metadata["managedFields"] = [each for each in owners if each.get("manager") == FIELD_OWNER]
    return seen | {"metadata": metadata}
