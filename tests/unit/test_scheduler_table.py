"""The schedule of four requests on two slots, one token a step, as the design page works it out."""

import pytest

from scheduling import Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.utilisation import ContinuousUtilisation, StaticUtilisation

ARRIVALS = {0: [("A", 4), ("B", 2)], 1: [("C", 2)], 2: [("D", 1)]}


def schedule(*, static: bool, max_wait_s: float) -> tuple[list[str], Drive]:
    limits = class_limits(max_batch=2, max_wait_s=max_wait_s)
    drive = Drive(worker_limits(limits, static=static))
    rows = []
    while drive.now == 0 or not drive.scheduler.idle:
        for name, out in ARRIVALS.get(int(drive.now), []):
            drive.add(request(name, out=out))
        rows.append("".join(sorted(drive.step())))
    return rows, drive


@pytest.mark.parametrize("max_wait_s", [0.0, 0.03, 0.3, 100.0])
def test_static_mode_keeps_its_members_until_the_longest_ends(max_wait_s: float) -> None:
    rows, drive = schedule(static=True, max_wait_s=max_wait_s)

    assert rows == ["AB", "AB", "A", "A", "CD", "C"]
    assert drive.finished == {"B": 2, "A": 4, "D": 5, "C": 6}


@pytest.mark.parametrize("max_wait_s", [0.0, 0.03, 0.3, 100.0])
def test_continuous_mode_fills_a_slot_as_soon_as_it_is_free(max_wait_s: float) -> None:
    rows, drive = schedule(static=False, max_wait_s=max_wait_s)

    assert rows == ["AB", "AB", "AC", "AC", "D"]
    assert drive.finished == {"B": 2, "A": 4, "C": 4, "D": 5}


def test_utilisation_of_the_table_counts_slots_that_stayed_empty() -> None:
    _, static = schedule(static=True, max_wait_s=0.0)
    _, continuous = schedule(static=False, max_wait_s=0.0)

    (lane,) = static.scheduler.lanes.values()
    assert lane.utilisation.ratio == (2 + 1) / (2 * 2)
    (lane,) = continuous.scheduler.lanes.values()
    assert lane.utilisation.ratio == 9 / (2 * 5)


def test_one_long_sequence_among_twenty_short_ones_leaves_a_static_batch_at_7_percent() -> None:
    limits = class_limits(max_batch=21, token_budget=64, max_length_ratio=1000.0, kv_blocks=4000)
    drive = Drive(worker_limits(limits, static=True, max_model_len=5000))
    drive.add(*(request(f"short {i}", out=100) for i in range(20)), request("long", out=4000))
    drive.run()

    (lane,) = drive.scheduler.lanes.values()
    assert lane.utilisation.ratio == pytest.approx(285.714 / 4000, abs=1e-6)
    assert drive.now == 4000


def test_utilisation_of_a_static_batch_is_mean_over_longest() -> None:
    utilisation = StaticUtilisation()
    for outputs in (100, 50, 200):
        utilisation.left(outputs, last=outputs == 200)
    assert utilisation.ratio == (350 / 3) / 200


def test_continuous_utilisation_forgets_steps_long_past() -> None:
    utilisation = ContinuousUtilisation(slots=4)
    for produced in [0] * 1000 + [4] * 256:
        utilisation.step(produced)
    assert utilisation.ratio == 1.0
