import json
import math
from pathlib import Path

import pytest

from splitpool_bench.report import Check, finish, table, verdict


def test_a_table_lines_up_its_columns() -> None:
    assert table(("name", "ms"), [("a", 1), ("longer", 100)]) == (
        "name     ms\na         1\nlonger  100"
    )


@pytest.mark.parametrize(
    ("measured", "at_least", "passed"),
    [(2.5, False, True), (2.6, False, False), (2.5, True, True), (2.4, True, False)],
)
def test_a_check_passes_at_its_bar_and_fails_beyond(
    measured: float, at_least: bool, passed: bool
) -> None:
    assert Check(name="x", measured=measured, limit=2.5, at_least=at_least).passed is passed


@pytest.mark.parametrize("at_least", [True, False])
def test_a_figure_that_is_missing_passes_nothing(at_least: bool) -> None:
    check = Check(name="x", measured=math.nan, limit=1, at_least=at_least)

    assert not check.passed
    assert "FAIL" in verdict([check])


def test_one_failed_check_makes_the_exit_status_1_and_json_says_which(tmp_path: Path) -> None:
    good = Check(name="good", measured=1, limit=2)
    bad = Check(name="bad", measured=3, limit=2)
    path = tmp_path / "out.json"

    status = finish(checks=[good, bad], details={}, about={"cores": 2}, path=path)

    assert status == 1
    assert finish(checks=[good], details={}, about={}, path=None) == 0
    written = json.loads(path.read_text())
    assert [check["passed"] for check in written["checks"]] == [True, False]
    assert written["machine"] == {"cores": 2}
