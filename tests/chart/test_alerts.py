"""When do the alerts fire? promtool plays series; every alert has its page and its threshold."""

import io
import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chart.alerting import alerts, groups, rules_text
from cluster.chart import rendered
from cluster.helm import CHART
from unit.golden import ROOT

CASES = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RUNBOOKS = ROOT / "docs" / "runbooks"
SECTIONS = ["What it means", "What to look at", "What helps"]
VALUES = YAML(typ="safe", pure=True).load((CHART / "values.yaml").read_text())["monitoring"]


def run(promtool: Path, *arguments: str) -> str:
    """What promtool says; fails where it finds something wrong."""
    command = [str(promtool), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_alerts_fire_when_they_should_and_only_then(
    promtool: Path, case: Path, tmp_path: Path
) -> None:
    without_words = groups(rules_text())
    for group in without_words:
        for rule in group["rules"]:
            del rule["annotations"]
    out = io.StringIO()
    YAML().dump({"groups": without_words}, out)
    (tmp_path / "rules.yaml").write_text(out.getvalue())
    (tmp_path / "case.yaml").write_text(case.read_text())

    run(promtool, "test", "rules", str(tmp_path / "case.yaml"))


def test_every_alert_is_played_firing_and_silent() -> None:
    played: dict[str, set[bool]] = {}
    for case in CASES:
        for each in YAML(typ="safe", pure=True).load(case.read_text())["tests"]:
            for check in each["alert_rule_test"]:
                played.setdefault(check["alertname"], set()).add(bool(check["exp_alerts"]))
    assert played == {each["alert"]: {True, False} for each in alerts(rules_text())}


def test_prometheus_takes_the_rules_and_their_words(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(rules_text())
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(file))


def test_the_operator_of_prometheus_gets_the_same_rules() -> None:
    (rule,) = (
        each
        for each in rendered(
            *("--set", "crds.install=false,monitoring.prometheusRule.enabled=true"),
            *("--api-versions", "monitoring.coreos.com/v1"),
        )
        if each["kind"] == "PrometheusRule"
    )
    assert rule["spec"]["groups"] == groups(rules_text())


def test_every_threshold_is_a_value_and_every_value_a_threshold() -> None:
    text = (CHART / "files" / "rules.yaml").read_text()
    wanted = {*re.findall(r"<([a-zA-Z]+)>", text)} - {"angles"}
    assert wanted == {*VALUES["rules"], "runbooks"}
    changed = rules_text("--set-json", 'monitoring.rules={"window":"30s","objective":0.95}')
    assert "[30s]" in changed
    assert "< 0.95" in changed
    assert not re.findall(r"<(?!angles)[a-zA-Z]+>", changed)


def test_every_alert_has_its_page() -> None:
    found = alerts(rules_text("--set", "monitoring.runbooks=https://example.com/runbooks"))
    assert {each["alert"] for each in found} == {file.stem for file in RUNBOOKS.glob("*.md")}
    for each in found:
        link = f"https://example.com/runbooks/{each['alert']}.md"
        assert each["annotations"]["runbook_url"] == link
        page = (RUNBOOKS / f"{each['alert']}.md").read_text()
        assert page.startswith(f"# {each['alert']}\n")
        assert re.findall(r"(?m)^## (.*)$", page) == SECTIONS
