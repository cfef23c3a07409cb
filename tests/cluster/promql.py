"""Which series does an expression read, and which labels does it want of them?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Of Prometheus' own, there where an alert fires.
_OWN = frozenset({"ALERTS"})
# What happens to be told of now; the words themselves are the programs' own.
_PASSING = frozenset({"reason", "within", "code"})


@dataclass(frozen=True, slots=True)
class Selector:
    """A series in an expression: its matchers, and the labels that are grouped by around it."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]
    grouping: frozenset[str]

    def expression(self) -> str:
        """What finds the series, whatever passing labels say now."""
        parts = [
            f'{label}=~".+"' if label in _PASSING else f'{label}{operator}"{value}"'
            for label, operator, value in self.matchers
        ]
        return f"{self.name}{{{','.join(parts)}}}"


def selectors(tree: dict[str, Any]) -> set[Selector]:
    """Of a tree as Prometheus' parse_query gives it."""
    return set(_found(tree, frozenset()))


def _found(node: Any, grouping: frozenset[str]) -> Iterator[Selector]:
    if isinstance(node, list):
        for each in node:
            yield from _found(each, grouping)
    if not isinstance(node, dict):
        return
    if node.get("type") == "aggregation" and not node["without"]:
        grouping |= {*node["grouping"]}
    if node.get("type") in {"vectorSelector", "matrixSelector"} and node["name"] not in _OWN:
        matchers = tuple(
            (each["name"], each["type"], each["value"])
            for each in node["matchers"]
            if each["name"] != "__name__"
        )
        yield Selector(node["name"], matchers, grouping)
    for value in node.values():
        yield from _found(value, grouping)
