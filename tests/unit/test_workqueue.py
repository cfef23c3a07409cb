"""Every key that is added is worked on after its last addition, never twice at once."""

from hypothesis import given
from hypothesis import strategies as st

from splitpool_operator.cluster.workqueue import Backoff, Key, WorkQueue

A, B = ("ns", "a"), ("ns", "b")


def test_a_key_added_often_is_taken_once() -> None:
    queue = WorkQueue()
    for at in (3.0, 1.0, 2.0):
        queue.add(A, at)
    assert queue.take(0.9) is None
    assert queue.take(1.0) == A
    assert queue.take(9.0) is None


def test_the_key_that_is_due_for_longest_comes_first() -> None:
    queue = WorkQueue()
    queue.add(A, 2.0)
    queue.add(B, 1.0)
    assert [queue.take(5.0), queue.take(5.0)] == [B, A]


def test_a_key_that_is_worked_on_waits_for_its_end() -> None:
    queue = WorkQueue()
    queue.add(A, 0.0)
    assert queue.take(0.0) == A
    queue.add(A, 0.0)
    assert queue.take(1.0) is None
    assert queue.next_at() is None
    queue.done(A)
    assert queue.take(1.0) == A


def test_failures_wait_ever_longer_until_one_success() -> None:
    queue = WorkQueue(Backoff(first=1.0, most=5.0))
    queue.add(A, 0.0)
    pauses, now = [], 0.0
    for _ in range(4):
        assert queue.take(now) == A
        pauses.append(queue.failed(A, now))
        assert queue.take(now + pauses[-1] - 0.1) is None
        now += pauses[-1]
    assert pauses == [1.0, 2.0, 4.0, 5.0]
    assert queue.take(now) == A
    queue.done(A)
    queue.add(A, now)
    assert queue.take(now) == A
    assert queue.failed(A, now) == 1.0


def test_a_change_meanwhile_makes_a_failed_key_due_no_sooner() -> None:
    queue = WorkQueue(Backoff(first=1.0, most=5.0))
    queue.add(A, 0.0)
    queue.take(0.0)
    queue.add(A, 0.0)
    queue.failed(A, 0.0)
    assert queue.take(0.5) is None
    assert queue.next_at() == 1.0


def test_lateness_is_that_of_the_most_overdue_key() -> None:
    queue = WorkQueue()
    assert queue.lateness(9.0) == 0.0
    queue.add(A, 4.0)
    queue.add(B, 7.0)
    assert queue.lateness(9.0) == 5.0


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "take", "done", "failed"]), st.integers(0, 3)),
        max_size=60,
    )
)
def test_no_addition_is_ever_lost(steps: list[tuple[str, int]]) -> None:
    queue = WorkQueue()
    running: list[Key] = []
    wanted: set[Key] = set()
    now = 0.0
    for step, number in steps:
        now += 1
        key = ("ns", str(number))
        if step == "add":
            queue.add(key, now)
            wanted.add(key)
        elif step == "take" and (taken := queue.take(now)) is not None:
            assert taken not in running
            running.append(taken)
            wanted.discard(taken)
        elif step != "take" and running:
            finished = running.pop(0)
            if step == "failed":
                queue.failed(finished, now)
                wanted.add(finished)
            else:
                queue.done(finished)
    for key in running:
        queue.done(key)
    left = set()
    while (taken := queue.take(now + 10**6)) is not None:
        left.add(taken)
    assert left == wanted
    assert len(queue) == 0


def test_who_is_asked_to_wait_waits_at_least_so_long() -> None:
    queue = WorkQueue(Backoff(first=1.0, most=5.0))
    queue.add(A, 0.0)
    queue.take(0.0)
    assert queue.failed(A, 0.0, at_least=3.0) == 3.0
    assert queue.take(2.9) is None
    assert queue.take(3.0) == A
    assert queue.failed(A, 3.0, at_least=1.0) == 2.0
