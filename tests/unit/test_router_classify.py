"""Latency class: the order of wishes, the clamp, the refusal of unknown names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_router.placing.classify import LatencyClass, UnknownClass, Wishes, clamp, classify

INTERACTIVE, BATCH = LatencyClass.INTERACTIVE, LatencyClass.BATCH
OBJECTIVES = {"chat": INTERACTIVE, "nightly": BATCH}


def chosen(default: LatencyClass = INTERACTIVE, **given_wishes: object) -> LatencyClass:
    fields: dict[str, object] = {
        "header": None,
        "objective": None,
        "service_tier": None,
        "stream": False,
        **given_wishes,
    }
    return classify(Wishes(**fields), objectives=OBJECTIVES, default=default)  # type: ignore[arg-type]


def test_the_header_beats_everything_else() -> None:
    assert chosen(header="batch", objective="chat", service_tier="priority", stream=True) is BATCH


def test_the_header_is_read_in_any_case_and_trimmed() -> None:
    assert chosen(default=INTERACTIVE, header="  BATCH ") is BATCH


def test_an_objective_beats_service_tier_and_stream() -> None:
    assert chosen(objective="nightly", service_tier="priority", stream=True) is BATCH


def test_an_objective_of_no_pool_decides_nothing() -> None:
    assert chosen(default=BATCH, objective="other") is BATCH
    assert chosen(default=BATCH, objective="other", stream=True) is INTERACTIVE


def test_flex_is_batch_and_priority_is_interactive() -> None:
    assert chosen(service_tier="flex", stream=True) is BATCH
    assert chosen(default=BATCH, service_tier="priority") is INTERACTIVE


@pytest.mark.parametrize("tier", ["auto", "default", "scale", None, 7, ["flex"]])
def test_other_tiers_leave_the_choice_to_stream_and_default(tier: object) -> None:
    assert chosen(default=BATCH, service_tier=tier) is BATCH
    assert chosen(default=BATCH, service_tier=tier, stream=True) is INTERACTIVE


def test_an_unknown_class_is_refused_with_the_allowed_list() -> None:
    with pytest.raises(UnknownClass, match="'urgent'; allowed are: interactive, batch"):
        chosen(header="urgent")


def test_an_empty_header_is_refused_too() -> None:
    with pytest.raises(UnknownClass):
        chosen(header="")


@given(st.sampled_from(LatencyClass), st.sampled_from(LatencyClass))
def test_a_clamp_never_raises_a_class(asked: LatencyClass, highest: LatencyClass) -> None:
    got = clamp(asked, highest)
    assert got is (BATCH if BATCH in (asked, highest) else INTERACTIVE)
