"""Balance in tokens, prefix affinity within its bound, breakers, retries."""

import random

from hypothesis import given
from hypothesis import strategies as st

from splitpool_router.fleet.breaker import Breaker, Verdict, verdict
from splitpool_router.fleet.workers import ClassLoad, Endpoint, Report, Worker
from splitpool_router.forwarding.retry import Failure, may_retry
from splitpool_router.placing.balancer import pick, prefer
from splitpool_router.placing.classify import LatencyClass

CLS = LatencyClass.INTERACTIVE


def worker(name: str, held: int = 0, kv: int = 1000, **report: object) -> Worker:
    made = Worker(
        endpoint=Endpoint(
            pool="p",
            name=name,
            classes=frozenset({CLS}),
            url="http://x",
            uid="1",
            terminating=False,
        ),
        report=Report(ready=True, load={CLS: ClassLoad(kv_tokens=kv)}, **report),
        reachable=True,
    )
    if held:
        made.take(CLS, held)
    return made


def chosen(
    workers: list[Worker],
    *,
    cost: int = 10,
    prefix: bytes = b"p",
    now: float = 0.0,
    exclude: tuple[Worker, ...] = (),
) -> Worker | None:
    rng = random.Random(1)
    return pick(workers, cls=CLS, cost=cost, prefix=prefix, now=now, rng=rng, exclude=exclude)


def open_breaker(made: Worker, now: float = 0.0) -> None:
    for _ in range(5):
        made.breaker.end(Verdict.BAD, now, trial=False)


@given(st.lists(st.integers(1, 500), min_size=2, max_size=6), st.binary(max_size=8))
def test_the_choice_is_the_least_loaded_or_a_preferred_one_within_its_bound(
    loads: list[int], prefix: bytes
) -> None:
    workers = [worker(f"w{i}", load) for i, load in enumerate(loads)]
    got = chosen(workers, prefix=prefix)
    assert got is not None
    mean = (sum(loads) + 10) / len(loads)
    bounded = got is prefer(workers, prefix) and got.held(CLS) <= 1.25 * mean
    assert bounded or got.held(CLS) == min(loads)


def test_equal_prompts_meet_again_on_an_idle_pool() -> None:
    workers = [worker(f"w{i}") for i in range(4)]
    assert len({id(chosen(workers, prefix=b"same")) for _ in range(20)}) == 1
    homes = {id(chosen(workers, prefix=bytes([i]))) for i in range(64)}
    assert len(homes) == 4


def test_ties_are_broken_at_random() -> None:
    workers = [worker(f"w{i}") for i in range(3)]
    home = prefer(workers, b"p")
    home.take(CLS, 900)
    others = {
        id(pick(workers, cls=CLS, cost=1, prefix=b"p", now=0, rng=random.Random(seed)))
        for seed in range(30)
    }
    assert len(others) == 2
    assert id(home) not in others


def test_a_worker_that_leaves_moves_only_its_own_prefixes() -> None:
    workers = [worker(f"w{i}") for i in range(5)]
    before = {i: prefer(workers, bytes([i])) for i in range(200)}
    left = workers[:-1]
    for i, home in before.items():
        if home in left:
            assert prefer(left, bytes([i])) is home


def test_a_request_of_any_size_fits_an_idle_worker_and_no_busy_full_one() -> None:
    idle, busy = worker("a", kv=100), worker("b", held=60, kv=100)
    assert idle.has_room(CLS, 5000)
    assert busy.has_room(CLS, 40)
    assert not busy.has_room(CLS, 41)


def test_nobody_is_chosen_who_is_draining_terminating_unready_or_silent() -> None:
    draining = worker("a", draining=True)
    terminating = worker("b")
    terminating.endpoint = terminating.endpoint.model_copy(update={"terminating": True})
    unready = worker("c")
    unready.report = Report(ready=False)
    silent = worker("d")
    silent.reachable = False
    assert chosen([draining, terminating, unready, silent]) is None


def test_an_open_breaker_is_passed_over_unless_it_is_the_only_worker() -> None:
    broken, well = worker("a"), worker("b", held=500)
    open_breaker(broken)
    assert chosen([broken, well]) is well
    assert chosen([broken]) is broken


def test_an_excluded_worker_is_not_chosen_again() -> None:
    one = worker("a")
    assert chosen([one], exclude=(one,)) is None


def test_client_errors_and_busy_answers_never_open_a_breaker() -> None:
    breaker = Breaker()
    for status in (400, 404, 413, 422, 429, 503) * 20:
        breaker.end(verdict(status), 0.0, trial=False)
    assert breaker.allows(0.0)


def test_an_open_breaker_lets_one_trial_through_after_its_cool_down() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.end(verdict(500), 0.0, trial=False)
    assert not breaker.allows(9.9)
    assert breaker.allows(10.0)
    assert breaker.begin()
    assert not breaker.allows(11.0)
    breaker.end(Verdict.GOOD, 11.0, trial=True)
    assert breaker.allows(11.0)


def test_a_failed_trial_opens_it_again_and_a_neutral_one_frees_its_place() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.end(Verdict.BAD, 0.0, trial=False)
    breaker.begin()
    breaker.end(Verdict.NEUTRAL, 10.0, trial=True)
    assert breaker.allows(10.0)
    breaker.begin()
    breaker.end(Verdict.BAD, 10.0, trial=True)
    assert not breaker.allows(19.9)
    assert breaker.allows(20.0)


def test_an_idle_worker_holds_exactly_nothing() -> None:
    made = worker("a")
    made.take(CLS, 7)
    made.take(CLS, 5)
    made.give_back(CLS, 7)
    assert made.held(CLS) == 5
    made.give_back(CLS, 5)
    made.give_back(CLS, 5)
    assert made.held(CLS) == 0
    assert made.requests[CLS] == 0


def test_only_what_no_worker_has_accepted_is_tried_again_and_only_once() -> None:
    assert {f for f in Failure if may_retry(f, attempt=1)} == {Failure.NOT_SENT, Failure.REFUSED}
    assert not any(may_retry(failure, attempt=2) for failure in Failure)
