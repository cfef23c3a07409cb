"""A pool at a glance: what is shown, what is left out, and what to do."""

import io
import json
import re
from typing import Any

import pytest

from splitpool.status import look
from splitpool.status.advice import advice
from splitpool.status.document import document
from splitpool.status.glance import Glance, State, glance
from splitpool.status.listing import listing
from splitpool.status.look import Look
from splitpool.status.screen import page
from splitpool.status.snapshot import Object, Snapshot
from splitpool.status.watching import redrawn
from splitpool_operator.reporting import reasons
from unit import golden
from unit.seen_pools import (
    NOW,
    ago,
    condition,
    crash_loop,
    crashing,
    declared,
    event,
    not_ready,
    pod,
    ready,
    with_status,
)

KUBECTL = "kubectl -n team"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def seen(pool: Object, **more: Any) -> Glance:
    return glance(Snapshot(pool=pool, now=NOW, **more))


def shown(snapshot: Snapshot, where: Look | None = None) -> str:
    of = glance(snapshot)
    return page(of, advice(of, KUBECTL), where or look.plain())


def test_a_ready_pool_reads_well() -> None:
    golden.check("status-ready.txt", shown(ready()))


def test_a_pool_in_a_crash_loop_says_what_to_do_last() -> None:
    golden.check("status-crash-loop.txt", shown(crash_loop()))


def test_a_pool_that_no_operator_has_seen_says_how_to_get_one() -> None:
    golden.check("status-unseen.txt", shown(Snapshot(pool=declared(), now=NOW)))


def test_a_narrow_terminal_without_unicode_gets_a_whole_page() -> None:
    golden.check("status-narrow.txt", shown(crash_loop(), look.plain(60, ascii_only=True)))


def test_many_pools_are_a_table_with_the_reasons() -> None:
    too_large = "spec.pools.batch.vram: 2 x 90Gi do not fit 2 x 76Gi"
    pools = [
        glance(ready()),
        seen(not_ready(reasons.DOES_NOT_FIT, too_large, stalled=True, name="translator")),
        seen(not_ready(reasons.STARTING, "batch: 0 of 2 workers are ready", name="writer")),
        seen(declared(name="new")),
    ]
    golden.check("status-list.txt", listing(pools, look.plain(), everywhere=True))
    assert "NAMESPACE" not in listing(pools, look.plain(), everywhere=False)


@pytest.mark.parametrize("snapshot", [ready(), crash_loop()], ids=["ready", "crash loop"])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(snapshot: Snapshot, width: int) -> None:
    assert max(map(len, shown(snapshot, look.plain(width)).splitlines())) <= width


@pytest.mark.parametrize("snapshot", [ready(), crash_loop()], ids=["ready", "crash loop"])
def test_colours_change_nothing_but_the_colours(snapshot: Snapshot) -> None:
    coloured = Look(width=100, colours=True, signs=look.plain().signs)
    text = shown(snapshot, coloured)
    assert "\x1b[" in text
    assert ESCAPES.sub("", text) == shown(snapshot)


class Terminal(io.TextIOWrapper):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("encoding", "environment", "coloured", "sign"),
    [
        ("utf-8", {}, True, "●"),
        ("utf-8", {"NO_COLOR": "1"}, False, "●"),
        ("utf-8", {"NO_COLOR": ""}, True, "●"),
        ("utf-8", {"TERM": "dumb"}, False, "●"),
        ("ascii", {}, True, "*"),
    ],
)
def test_a_terminal_is_asked_what_it_can_show(
    encoding: str,
    environment: dict[str, str],
    coloured: bool,
    sign: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "70", **environment}.items():
        monkeypatch.setenv(name, value)
    found = look.of(Terminal(io.BytesIO(), encoding=encoding))
    assert (found.colours, found.signs["good"], found.width) == (coloured, sign, 70)


def test_in_a_pipe_nothing_is_coloured_or_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    text = shown(crash_loop(), look.of(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")))
    assert "\x1b[" not in text
    assert "memory access was encountered; see kubectl logs --previous\n" in text
    assert "…" not in text


def test_what_a_worker_said_cannot_steer_the_terminal() -> None:
    said = "batch: worker ends\x1b[2J\x07 with\nmany \u202elines"
    text = shown(Snapshot(pool=not_ready(reasons.CRASH_LOOP, said), now=NOW))
    assert "batch: worker ends?[2J? with many ?lines" in text


def test_only_a_ready_pool_of_the_present_generation_is_ready() -> None:
    assert glance(ready()).state is State.READY
    older = ready().pool
    older["metadata"]["generation"] = 4
    assert seen(older).state is State.UNSEEN
    assert "last change" in str(advice(seen(older), KUBECTL))
    deleted = ready().pool
    deleted["metadata"]["deletionTimestamp"] = ago(minutes=1)
    assert seen(deleted).state is State.DELETING


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (reasons.STARTING, State.PROGRESSING),
        (reasons.ROLLING_OUT, State.PROGRESSING),
        (reasons.CRASH_LOOP, State.FAILING),
        (reasons.WAITING_FOR_GPU, State.FAILING),
    ],
)
def test_a_start_is_no_failure(reason: str, state: State) -> None:
    assert seen(not_ready(reason, "said")).state is state


def test_what_ready_says_is_not_said_again_by_other_conditions() -> None:
    kinds = [each.type for each in glance(crash_loop()).mattering]
    assert kinds == ["Ready", "BatchAvailable"]


def test_a_class_that_sleeps_is_worth_a_line_and_autoscaling_without_signals_too() -> None:
    found = [
        condition("Ready", "True", "Serving"),
        condition("BatchAvailable", "True", "ScaledToZero", "wakes when requests wait"),
        condition("AutoscalingActive", "False", "NoSignals", "no signal is read"),
    ]
    kinds = [each.type for each in seen(with_status(declared(), found)).mattering]
    assert kinds == ["BatchAvailable", "AutoscalingActive"]


@pytest.mark.parametrize(
    "reason",
    sorted(
        value
        for name, value in vars(reasons).items()
        if name.isupper()
        and value
        not in {
            *(reasons.SERVING, reasons.NOT_STALLED, reasons.SETTLED, reasons.AVAILABLE),
            *(reasons.DEGRADED, reasons.SCALED_TO_ZERO, reasons.NO_WORKER, reasons.FENCE_SEEN),
            *(reasons.COOPERATIVE_ONLY, reasons.NOT_REPORTED, reasons.OFF, reasons.EXTERNAL),
            # Of autoscaling, whose sentences say themselves what helps.
            *(reasons.NO_SIGNALS, reasons.AT_MAXIMUM, reasons.MORE_REPLICAS_DO_NOT_HELP),
            *(reasons.STEADY, reasons.SCALED_OUT, reasons.SCALED_IN, reasons.WOKEN),
            *(reasons.GAVE_WAY, reasons.BOUNDED, reasons.COOLING_DOWN),
        }
    ),
)
def test_every_reason_has_advice_of_its_own(reason: str) -> None:
    said = advice(seen(not_ready(reason, "said")), KUBECTL)
    assert said is not None
    assert "what is said above" not in said
    assert "{" not in said


def test_a_reason_that_is_not_known_is_referred_to_the_object() -> None:
    said = advice(seen(not_ready("SomethingNew", "said")), KUBECTL)
    assert said == (
        "Read what is said above; kubectl -n team describe spl assistant shows the rest."
    )


def test_a_start_that_lasts_is_looked_into() -> None:
    short, long = (
        str(advice(seen(not_ready(reasons.STARTING, "said", minutes=age)), KUBECTL))
        for age in (3, 30)
    )
    assert short.startswith("Wait: kubectl -n team wait --for=condition=Ready spl/assistant")
    assert "kubectl -n team logs -l splitpool.dev/pool=assistant" in long


def test_a_ready_pool_that_is_too_slow_says_so() -> None:
    slow = ready().pool
    slow["status"]["pools"]["interactive"]["ttftP99Ms"] = 700
    assert "TTFT of interactive is above its target" in str(advice(seen(slow), KUBECTL))
    assert advice(glance(ready()), KUBECTL) is None


def test_pods_that_merely_start_are_counted_and_finished_ones_are_not() -> None:
    unready: Object = {"conditions": [{"type": "Ready", "status": "False"}]}
    pods = (
        pod("a", "batch", unready),
        pod("b", "batch", unready | {"phase": "Failed"}),
        pod("c", "batch", {"conditions": [{"type": "Ready", "status": "True"}]}),
        crashing("d"),
    )
    found = seen(not_ready(reasons.CRASH_LOOP, "said"), pods=pods)
    assert found.starting == 1
    assert [each.name for each in found.troubles] == ["assistant-batch-d"]


def test_a_pod_that_does_not_go_away_is_in_trouble() -> None:
    late = pod("a", "batch", {}, deletionTimestamp=ago(minutes=20))
    soon = pod("b", "batch", {}, deletionTimestamp=ago(seconds=5))
    (found,) = seen(not_ready(reasons.STARTING, "said"), pods=(late, soon)).troubles
    assert found.reason == "Terminating"
    assert "20m ago" in found.message


def test_events_of_others_are_not_shown() -> None:
    other_pod = {"kind": "Pod", "name": "assistant2-batch-1-a"}
    namesake = {"kind": "InferencePool", "name": "assistant", "uid": "an older one"}
    events = (
        event("Other", "said", 1, type="Warning", involvedObject=other_pod),
        event("Before", "said", 1, involvedObject=namesake),
        event("Mine", "said", 1),
    )
    found = seen(ready().pool, events=events).events
    assert [each.reason for each in found] == ["Mine"]


def test_warnings_come_first_and_what_was_said_often_is_said_once() -> None:
    pods = [{"kind": "Pod", "name": f"assistant-batch-1-{end}"} for end in "ab"]
    events = (
        event("Normal", "said", 1),
        event("BackOff", "said", 3, type="Warning", count=4, involvedObject=pods[0]),
        event("BackOff", "said", 2, type="Warning", count=5, involvedObject=pods[1]),
    )
    first, second = seen(ready().pool, events=events).events
    assert (first.reason, first.times) == ("BackOff", 9)
    assert second.reason == "Normal"


def test_what_could_not_be_read_is_said() -> None:
    text = shown(Snapshot(pool=ready().pool, now=NOW, gaps=("pods are not shown: forbidden",)))
    assert "(pods are not shown: forbidden)" in text


def test_programs_get_everything_in_bytes_and_seconds() -> None:
    of = glance(crash_loop())
    made = json.loads(json.dumps(document(of, advice(of, KUBECTL))))
    assert made["ready"] is False
    assert (made["state"], made["reason"], made["since"]) == ("Failing", "CrashLoop", 180)
    assert made["classes"][0]["vram"]["quota"] == 32 * 1024**3
    assert made["troubles"][0]["more"] == 1
    assert made["advice"].startswith("kubectl -n team logs assistant-batch-7d9f-a --previous")


def test_a_broken_status_is_shown_as_far_as_it_goes() -> None:
    broken = with_status(declared(), [{"type": "Ready"}], {"batch": {"vram": {"quota": "x"}}})
    assert "assistant" in shown(Snapshot(pool=broken, now=NOW))


def test_a_page_that_is_too_long_keeps_its_beginning_and_what_to_do() -> None:
    text = "".join(f"line {number}\n" for number in range(50))
    drawn = redrawn(text, 10, first=True)
    lines = drawn.replace("\x1b[K", "").splitlines()
    assert lines[0].endswith("line 0")
    assert lines[-2] == "line 49"
    assert len(lines) <= 10
