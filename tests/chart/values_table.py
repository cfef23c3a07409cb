"""Which values does the chart have? The table of its README, read out of values.yaml.

A row a value: its path, its default as JSON, and the comment above it. A value of the router or the
worker without words takes those of the operator's value of that name.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from cluster.helm import CHART

README = CHART / "README.md"
BEGIN, END = "<!-- values: generated from values.yaml; `make golden` -->", "<!-- end of values -->"
_KEY = re.compile(r"^( *)([A-Za-z_]\w*):")
# Maps that are one value: the user's keys, or objects of Kubernetes.
_WHOLE = frozenset(
    {"resources", "labels", "annotations", "podAnnotations", "nodeSelector", "affinity"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One row."""

    path: str
    default: Any
    words: str

    def row(self) -> str:
        """In Markdown."""
        default = json.dumps(self.default, ensure_ascii=False)
        words = self.words.replace("|", "\\|")
        return f"| `{self.path}` | `{default}` | {words} |\n"


def values() -> list[Value]:
    """Every value, in the order of the file."""
    text = (CHART / "values.yaml").read_text()
    comments = dict(_comments(text))
    return [
        Value(path=path, default=default, words=comments.get(path) or comments.get(_like(path), ""))
        for path, default in _leaves(YAML(typ="safe", pure=True).load(text))
    ]


def table() -> str:
    """The table in Markdown."""
    return "| value | default | meaning |\n|---|---|---|\n" + "".join(
        each.row() for each in values()
    )


def page(text: str) -> str:
    """The README with the table of now in its place."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n\n{table()}\n{text[end:]}"


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and key not in _WHOLE:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _like(path: str) -> str:
    """The operator's value of the same name."""
    program, _, rest = path.partition(".")
    return f"operator.{rest}" if program in {"router", "worker"} else path


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """Path and comment of each key that has one."""
    above: list[str] = []
    place: list[tuple[int, str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            above.append(stripped.lstrip("# "))
            continue
        key = _KEY.match(line)
        if key:
            indent = len(key[1])
            place = [(depth, name) for depth, name in place if depth < indent]
            place.append((indent, key[2]))
            if above:
                yield ".".join(name for _, name in place), " ".join(above)
        above = []
