"""Does a plan fit however a scheduler goes about it? Checked against every order."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_operator.planning.packing import fits_in_any_order
from splitpool_operator.planning.quota import depends_on_order
from unit.pool_files import CPU, GPU, pool


def stuck_somehow(gpus: int, sizes: list[int], room: int) -> bool:
    """Whether some order and some choice of GPUs leaves a worker without room."""

    def stuck(loads: tuple[int, ...], order: tuple[int, ...]) -> bool:
        if not order:
            return False
        size, rest = order[0], order[1:]
        open_to = {load for load in loads if load + size <= room}
        if not open_to:
            return True
        return any(stuck(_placed(loads, load, size), rest) for load in open_to)

    return any(stuck((0,) * gpus, order) for order in set(permutations(sizes)))


def _placed(loads: tuple[int, ...], at: int, size: int) -> tuple[int, ...]:
    index = loads.index(at)
    return tuple(sorted((*loads[:index], at + size, *loads[index + 1 :])))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 3), st.integers(0, 3), st.integers(0, 3), st.integers(1, 6), st.integers(1, 6)
)
def test_it_agrees_with_trying_every_order(
    gpus: int, interactive: int, batch: int, one: int, other: int
) -> None:
    room = 10
    beside = [(room - count * one) // other for count in range(room // one + 1)]
    fits = fits_in_any_order(gpus=gpus, interactive=interactive, batch=batch, most_beside=beside)
    assert fits is not stuck_somehow(gpus, [one] * interactive + [other] * batch, room)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"spec.pools.interactive.vram": "36Gi"}, True),
        ({"spec.pools.interactive.vram": "38Gi", "spec.pools.batch.vram": "38Gi"}, False),
        ({"spec.accelerator.count": 4}, False),
        ({"spec.sharing.mode": "Exclusive", "spec.accelerator.count": 4}, False),
        ({"spec.topology": "Shared"}, False),
    ],
)
def test_two_of_one_class_can_take_the_room_of_the_other(
    changes: dict[str, object], expected: bool
) -> None:
    assert depends_on_order(pool(GPU, changes).spec) is expected


def test_on_cpu_no_scheduler_adds_up_gpus() -> None:
    assert not depends_on_order(pool(CPU).spec)
