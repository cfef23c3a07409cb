"""The store holds what was seen last, by whatever way it came."""

from typing import Any

from splitpool_operator.cluster.intake import Intake
from splitpool_operator.cluster.kinds import CONFIG_MAP, DEPLOYMENT, POD, POOL
from splitpool_operator.cluster.store import Key, Store

KEY = ("ns", "assistant")


def seen(name: str, version: int, *, pool: str = "assistant", uid: str = "") -> dict[str, Any]:
    labels = {"splitpool.dev/pool": pool}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
            "managedFields": [{"manager": "kubectl"}, {"manager": "splitpool-operator"}],
        }
    }


def a_pool(name: str, version: int, model: str = "m") -> dict[str, Any]:
    return seen(name, version) | {"spec": {"model": {"name": model}}}


def names(store: Store) -> list[str]:
    return [each["metadata"]["name"] for each in store.of_pool(CONFIG_MAP, KEY)]


def test_an_older_state_never_replaces_a_newer_one() -> None:
    store = Store()
    assert store.put(CONFIG_MAP, seen("c", 9) | {"data": {"k": "new"}})
    assert not store.put(CONFIG_MAP, seen("c", 8) | {"data": {"k": "old"}})
    assert not store.put(CONFIG_MAP, seen("c", 9))
    assert store.put(CONFIG_MAP, seen("c", 10))


def test_the_end_of_a_predecessor_does_not_remove_its_successor() -> None:
    store = Store()
    store.put(CONFIG_MAP, seen("c", 5, uid="new"))
    store.drop(CONFIG_MAP, seen("c", 4, uid="old"))
    assert names(store) == ["c"]
    store.drop(CONFIG_MAP, seen("c", 6, uid="new"))
    assert names(store) == []


def test_a_listing_removes_what_it_lacks_and_names_the_pools() -> None:
    store = Store()
    store.put(CONFIG_MAP, seen("gone", 3))
    store.put(CONFIG_MAP, seen("same", 4))
    store.put(CONFIG_MAP, seen("later", 30, pool="other"))
    missed = store.replace(CONFIG_MAP, [seen("same", 4), seen("fresh", 12, pool="third")], 20)
    assert names(store) == ["same"]
    assert missed == {KEY, ("ns", "third")}
    assert store.get(CONFIG_MAP, ("ns", "later")) is not None


def test_a_child_whose_label_changes_moves_to_the_other_pool() -> None:
    store = Store()
    store.put(CONFIG_MAP, seen("c", 1))
    store.put(CONFIG_MAP, seen("c", 2, pool="other"))
    assert names(store) == []
    assert len(store.of_pool(CONFIG_MAP, ("ns", "other"))) == 1


def test_only_what_is_read_is_kept() -> None:
    store = Store()
    store.put(POD, seen("p", 1) | {"spec": {"containers": []}, "status": {"phase": "Running"}})
    store.put(DEPLOYMENT, seen("d", 1) | {"spec": {}})
    pod, deployment = store.get(POD, ("ns", "p")), store.get(DEPLOYMENT, ("ns", "d"))
    assert pod is not None
    assert deployment is not None
    assert {*pod} == {"metadata", "status"}
    assert "managedFields" not in pod["metadata"]
    owners = [each["manager"] for each in deployment["metadata"]["managedFields"]]
    assert owners == ["splitpool-operator"]


def test_pools_of_one_model_are_looked_at_when_one_of_them_comes_goes_or_changes() -> None:
    told: list[Key] = []
    store = Store()
    intake = Intake(store=store, enqueue=told.append, relisted=lambda: None)
    intake.take(POOL, "ADDED", a_pool("one", 1))
    intake.take(POOL, "ADDED", a_pool("two", 2))
    assert {("ns", "one"), ("ns", "two")} == {*told}
    told.clear()
    intake.take(POOL, "MODIFIED", a_pool("one", 3, model="other"))
    assert ("ns", "two") in told
    told.clear()
    intake.take(POOL, "MODIFIED", a_pool("one", 4))
    told.clear()
    intake.take(POOL, "DELETED", a_pool("one", 5))
    assert ("ns", "two") in told
    assert [each["metadata"]["name"] for each in store.serving("m")] == ["two"]


def test_an_event_that_tells_nothing_new_makes_no_work() -> None:
    told: list[Key] = []
    intake = Intake(store=Store(), enqueue=told.append, relisted=lambda: None)
    intake.take(CONFIG_MAP, "ADDED", seen("c", 1))
    intake.take(CONFIG_MAP, "MODIFIED", seen("c", 1))
    assert told == [KEY]


def test_a_watch_that_begins_anew_is_told_of_even_where_it_shows_nothing_new() -> None:
    told: list[str] = []
    store = Store()
    intake = Intake(store=store, enqueue=lambda _: None, relisted=lambda: told.append("relisted"))
    intake.take(CONFIG_MAP, "ADDED", seen("c", 1))
    assert told == []
    intake.take(CONFIG_MAP, None, seen("c", 1))
    assert told == ["relisted"]


def test_an_answer_that_comes_after_the_end_of_its_object_brings_nothing_back() -> None:
    store = Store()
    store.put(CONFIG_MAP, seen("c", 3))
    store.drop(CONFIG_MAP, seen("c", 4))
    assert not store.put(CONFIG_MAP, seen("c", 3))
    assert names(store) == []
    assert store.put(CONFIG_MAP, seen("c", 9, uid="successor"))


def test_a_store_whose_objects_went_is_as_small_as_one_that_had_none() -> None:
    store = Store()
    for number in range(3000):
        made = seen(f"c{number}", number + 1, pool=f"p{number}")
        store.put(CONFIG_MAP, made)
        store.put(POOL, a_pool(f"p{number}", number + 1, model=f"m{number}"))
        store.drop(CONFIG_MAP, made)
        store.drop(POOL, a_pool(f"p{number}", number + 1))
    assert store.pools() == []
    assert sum(store.sizes().values()) <= 1000
