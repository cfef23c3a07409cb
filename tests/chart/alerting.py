"""The rules of the chart as Prometheus reads them."""

from typing import Any

from ruamel.yaml import YAML

from cluster.api import Object
from cluster.chart import rendered

FILE = "splitpool.rules.yaml"


def rules_text(*arguments: str) -> str:
    """The file that a plain Prometheus mounts. Raises ChartError."""
    enabled = ("--set", "crds.install=false,monitoring.rulesConfigMap.enabled=true")
    (found,) = (
        each
        for each in rendered(*enabled, *arguments)
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "splitpool-rules"
    )
    return str(found["data"][FILE])


def groups(text: str) -> list[Object]:
    """The groups of a file of rules."""
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return list(loaded["groups"])


def alerts(text: str) -> list[Object]:
    """Every alert of a file of rules."""
    return [rule for group in groups(text) for rule in group["rules"] if "alert" in rule]
