"""Which fields may a pool file have, and which rules hold between them? As a Markdown page."""

import json
from collections.abc import Iterator
from typing import Any

from splitpool_operator.declaration import crd

_INTRO = """\
# The InferencePool

This page is generated from the pool's model (`make golden`). [examples](../examples) has files that
work as they are.

A file is read strictly: an unknown field is an error with a suggestion, and all errors of a file
come at once, each with its line. Quantities are Kubernetes' own (`80Gi`, `512Mi`). Where two
defaults stand, the first is interactive's, the second batch's.

## Fields of `spec`

| field | type | default | meaning |
|---|---|---|---|
"""
_PAIR = ("pools.interactive", "pools.batch")


def page() -> str:
    """The whole page."""
    spec = crd.schema()["properties"]["spec"]
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows(spec))
    rules = "".join(f"- {rule}\n" for rule in _rules(spec, "spec"))
    return f"{_INTRO}{rows}\n## Rules between fields\n\n{rules}"


def _rows(spec: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    batch = dict(_fields(spec["properties"]["pools"]["properties"]["batch"], _PAIR[1]))
    for path, (node, needed) in _fields(spec):
        if path.startswith(_PAIR[1]):
            continue
        twin = batch.get(path.replace(*_PAIR)) if path.startswith(_PAIR[0]) else None
        defaults = [_default(node, needed)]
        if twin is not None and _default(*twin) not in defaults:
            defaults.append(_default(*twin))
        name = path.replace(_PAIR[0], "pools.CLASS") if twin is not None else path
        yield f"`{name}`", _type(node), " / ".join(defaults), _meaning(node)


def _fields(
    node: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, tuple[dict[str, Any], bool]]]:
    """Every leaf below a node with its path, and whether it is required."""
    for name, child in node.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        if "properties" in child:
            yield from _fields(child, below)
        else:
            yield below, (child, name in node.get("required", ()))


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    bounds = [str(node[key]) for key in ("minimum", "maximum") if key in node]
    kind = "quantity" if "quantity(self)" in json.dumps(node) else str(node.get("type", "any"))
    return f"{kind} {' to '.join(bounds)}".strip()


def _default(node: dict[str, Any], required: bool) -> str:
    if "default" in node:
        return f"`{json.dumps(node['default']).strip(chr(34))}`"
    return "required" if required else "none"


def _meaning(node: dict[str, Any]) -> str:
    return " ".join(node.get("description", "").split()).replace("|", "\\|")


def _rules(node: dict[str, Any], path: str) -> Iterator[str]:
    """What the validations of every node with fields of its own refuse."""
    for entry in node.get("x-kubernetes-validations", ()):
        yield f"`{path}`: {entry['message']}"
    for name, child in node.get("properties", {}).items():
        if "properties" in child:
            yield from _rules(child, f"{path}.{name}")
