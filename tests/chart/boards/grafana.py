"""What does a dashboard look like to Grafana? Panels in rows of three, under four variables.

The variables: the source of data, namespace, pool and class.
"""

import json
from dataclasses import dataclass
from typing import Any

SCHEMA_VERSION = 39
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A chart of some queries, each with its legend. Units are Grafana's names."""

    title: str
    text: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    stacked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One file."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    def text(self) -> str:
        """The file's content."""
        return json.dumps(_model(self), indent=2) + "\n"


def _model(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"splitpool-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["splitpool"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "links": [
            {
                "type": "dashboards",
                "title": "splitpool",
                "tags": ["splitpool"],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "panels": [_panel(number, each) for number, each in enumerate(dashboard.panels)],
    }


def _variables() -> list[dict[str, Any]]:
    source = {
        "name": "datasource",
        "label": "Source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
    }
    of = "splitpool_router_queue_requests"
    return [
        source,
        _labels("namespace", f"label_values({of}, namespace)"),
        _labels("pool", f'label_values({of}{{namespace=~"$namespace"}}, pool)'),
        _labels("class", f"label_values({of}, class)"),
    ]


def _labels(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number * _WIDTH, _COLUMNS)
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"x": column, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {
                    "lineWidth": 1,
                    "fillOpacity": 30 if panel.stacked else 5,
                    "showPoints": "never",
                    "stacking": stacking,
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "editorMode": "code",
                "expr": expression,
                "legendFormat": legend,
                "range": True,
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }
