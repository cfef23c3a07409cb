"""The dashboards: what Grafana expects of a file, and ConfigMaps that its sidecar finds."""

import json
import os
import re
from typing import Any

import pytest

from chart.boards.all_boards import DASHBOARDS, FOLDER
from chart.boards.grafana import Dashboard
from cluster.chart import rendered

every_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)


def read(dashboard: Dashboard) -> dict[str, Any]:
    """The chart's file."""
    found: dict[str, Any] = json.loads((FOLDER / f"{dashboard.name}.json").read_text())
    return found


@every_dashboard
def test_the_file_is_what_the_tables_say(dashboard: Dashboard) -> None:
    file = FOLDER / f"{dashboard.name}.json"
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(dashboard.text())
    assert file.read_text() == dashboard.text(), "run: make golden"


def test_no_file_is_left_over() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == {each.name for each in DASHBOARDS}


@every_dashboard
def test_panels_fill_the_width_without_overlapping(dashboard: Dashboard) -> None:
    panels = read(dashboard)["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@every_dashboard
def test_queries_use_the_dashboards_own_variables(dashboard: Dashboard) -> None:
    model = read(dashboard)
    declared = {each["name"] for each in model["templating"]["list"]}
    assert declared == {"datasource", "namespace", "pool", "class"}
    text = json.dumps(model)
    used = {*re.findall(r"\$\{?([a-z]\w*)", text)}
    assert used <= declared
    for panel in model["panels"]:
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            # A window that follows the dashboard's range holds enough scrapes at any zoom.
            assert not re.findall(r"\[\d", target["expr"])


def test_grafanas_sidecar_finds_every_dashboard() -> None:
    values = ("crds.install=false", "monitoring.dashboards.enabled=true")
    folder = ("--set", "monitoring.dashboards.annotations.grafana_folder=splitpool")
    found = {
        name: json.loads(text)
        for each in rendered("--set", ",".join(values), *folder)
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
        and each["metadata"]["annotations"] == {"grafana_folder": "splitpool"}
        for name, text in each["data"].items()
    }
    assert found == {f"splitpool-{each.name}.json": read(each) for each in DASHBOARDS}
    assert len({each["uid"] for each in found.values()}) == len(DASHBOARDS)
