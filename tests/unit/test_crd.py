"""The CRD in the repository is the model's, structural, small, and holds every rule in CEL."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from splitpool_operator.declaration import cel, crd, defaults
from splitpool_operator.declaration.rules import RULES
from unit.pool_files import CPU, GPU, changed, fields, pool, problems

FILE = Path(__file__).parents[2] / "crds" / "inferencepools.yaml"
ALLOWED = {
    *("type", "description", "enum", "pattern", "format", "minimum", "maximum", "default"),
    *("minLength", "maxLength", "maxItems", "maxProperties", "required", "items", "properties"),
    *("additionalProperties", "x-kubernetes-validations", "x-kubernetes-int-or-string"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"),
    "x-kubernetes-list-map-keys",
}


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}.{key}")


ROOT = crd.schema()
NODES = dict(nodes(ROOT))
SPEC = {path: node for path, node in NODES.items() if path.startswith(".spec")}
VALIDATIONS = [
    (path, entry) for path, n in NODES.items() for entry in n.get("x-kubernetes-validations", [])
]


def test_the_file_in_the_repository_is_what_the_model_says() -> None:
    assert FILE.read_text() == crd.as_yaml(), "run: splitpool crd -o crds/inferencepools.yaml"


def test_the_file_is_small_enough_to_be_applied_by_the_client() -> None:
    assert FILE.stat().st_size < 100_000


@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_readers_of_both_yaml_versions_see_the_same_object(version: tuple[int, int]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    assert yaml.load(crd.as_yaml()) == crd.as_object()


def test_no_anchor_is_in_the_file() -> None:
    assert re.search(r"[&*]id\d", FILE.read_text()) is None


def test_the_schema_is_structural() -> None:
    for path, node in NODES.items():
        assert set(node) <= ALLOWED, path
        free = "x-kubernetes-int-or-string" in node
        assert free or node.get("type") in {
            *("object", "array", "string", "integer", "number", "boolean"),
        }, path
        assert not {"properties", "additionalProperties"} <= set(node), path
        assert node.get("default", 0) is not None, path
        assert node.get("type") != "array" or "items" in node, path
        assert (
            node.get("type") != "object"
            or path in {"", ".metadata"}
            or {*("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")}
            & set(node)
        ), path


def test_everything_that_a_rule_may_read_is_bounded() -> None:
    for path, node in SPEC.items():
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path
        if node.get("type") in {"integer", "number"} and "toleration" not in path:
            assert {"minimum", "maximum"} <= set(node), path


def test_every_rule_of_the_file_reader_stands_in_the_crd() -> None:
    assert {rule.name for rule in RULES} == set(cel.RULES_IN_CEL)
    stated = {entry["rule"] for _, entry in VALIDATIONS}
    for name, twins in cel.RULES_IN_CEL.items():
        assert twins, name
        assert {twin.rule for twin in twins} <= stated, name


def test_the_type_of_the_accelerator_is_immutable() -> None:
    entries = NODES[".spec.accelerator.type"]["x-kubernetes-validations"]
    assert [entry["rule"] for entry in entries] == ["self == oldSelf"]


def test_rules_are_balanced_short_and_speak_one_line() -> None:
    for path, entry in VALIDATIONS:
        rule = entry["rule"]
        assert rule.count("(") == rule.count(")"), path
        assert rule.count("[") == rule.count("]"), path
        assert "quantity(" not in rule or "* quantity(" not in rule
        assert len(entry["message"]) < 256
        assert "\n" not in entry["message"]
        assert len(entry.get("messageExpression", "")) < 5000


def test_rules_call_only_what_a_quantity_has() -> None:
    known = {"isInteger", "asInteger", "asApproximateFloat", "isLessThan", "isGreaterThan"}
    for path, entry in VALIDATIONS:
        assert set(re.findall(r"quantity\([^()]*\)\.(\w+)", entry["rule"])) <= known, path


def test_messages_make_no_text_of_numbers_whose_cost_has_no_bound() -> None:
    for path, entry in VALIDATIONS:
        assert "string(" not in entry.get("messageExpression", ""), path


def test_rules_of_objects_that_default_to_nothing_test_for_presence() -> None:
    """The API server validates a default of {} before the defaults inside it apply."""
    for path, entry in VALIDATIONS:
        if NODES[path].get("default") == {}:
            for name in re.findall(r"self\.[a-zA-Z0-9.]+", entry["rule"]):
                assert f"has({name.removesuffix('.all')})" in entry["rule"], (path, name)


def test_fields_that_rules_read_are_in_the_schema() -> None:
    for path, entry in VALIDATIONS:
        for name in re.findall(r"self((?:\.[a-zA-Z0-9]+)+)", entry["rule"]):
            parts = [p for p in name.split(".") if p]
            node = NODES[path]
            for part in parts:
                if "properties" not in node or part not in node["properties"]:
                    assert part in {
                        "all",
                        "startsWith",
                        "substring",
                        "contains",
                        "matches",
                        "name",
                    }, name
                    break
                node = node["properties"][part]


def test_field_paths_of_rules_are_in_the_schema() -> None:
    for path, entry in VALIDATIONS:
        assert path + entry.get("fieldPath", "") in NODES


def test_optional_fields_are_read_behind_a_test_of_presence() -> None:
    for path, entry in VALIDATIONS:
        for name in set(re.findall(r"self(?:\.[a-zA-Z0-9]+)+", entry["rule"])):
            node, optional = NODES[path], False
            for part in name.split(".")[1:]:
                child = node.get("properties", {}).get(part)
                if child is None:
                    break
                required = part in node.get("required", []) or "default" in child
                optional = optional or not (required or name.startswith("self.metadata"))
                node = child
            if optional:
                assert (
                    f"has({name})" in entry["rule"]
                    or f"has({name.rpartition('.')[0]})" in (entry["rule"])
                ), (path, name)


def test_constant_defaults_are_the_models() -> None:
    raw = pool(CPU).model_dump(by_alias=True, mode="json")["spec"]
    compared = 0
    for path, node in SPEC.items():
        if node.get("default", {}) == {} or path == ".spec.accelerator.type":
            continue
        value: Any = raw
        for part in path.split(".")[2:]:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            assert value == node["default"], path
            compared += 1
    assert compared > 20


def test_objects_with_defaults_inside_are_there_by_default() -> None:
    for name in ("resume", "routing", "autoscaling", "podTemplate"):
        assert NODES[f".spec.{name}"]["default"] == {}
    assert "default" not in NODES[".spec.sharing"]


def test_unquoted_words_that_yaml_takes_for_booleans_are_quoted() -> None:
    assert '- "Off"' in FILE.read_text()
    assert re.search(r"^\s*- Off$", FILE.read_text(), re.MULTILINE) is None


def test_names_and_columns_are_those_of_the_contract() -> None:
    spec = crd.as_object()["spec"]
    assert spec["names"]["shortNames"] == ["spl"]
    assert spec["names"]["categories"] == ["splitpool"]
    assert spec["names"]["plural"] == "inferencepools"
    (version,) = spec["versions"]
    assert version["subresources"] == {"status": {}}
    columns = [column["name"].upper() for column in version["additionalPrinterColumns"]]
    assert columns == ["MODEL", "INTERACTIVE", "BATCH", "TTFT-P99", "ENFORCEMENT", "READY", "AGE"]


def test_columns_show_fields_that_exist() -> None:
    for column in crd.as_object()["spec"]["versions"][0]["additionalPrinterColumns"]:
        path = column["jsonPath"].partition("[?")[0]
        assert path in NODES or path.startswith(".metadata")


def test_the_status_holds_what_the_contract_says() -> None:
    for name in ("interactive", "batch"):
        fields = NODES[f".status.pools.{name}"]["properties"]
        assert {"desiredReplicas", "readyReplicas", "updatedReplicas", "vram", "ttftP99Ms"} <= set(
            fields
        )
        assert {"lastScaleTime", "lastScaleReason", "enforcement", "summary"} <= set(fields)
    conditions = NODES[".status.conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert "observedGeneration" in conditions["items"]["properties"]


TAKEN = ["1.5Gi", "80Mi", "12e6", "0.001Ti", "1k", "1", "100M"]
REFUSED = ["100m", ".5Gi", "1P", "+1Mi", "5.Mi", "1Ei", "1 Mi", "1MB", "-1", "01Mi", "1.0625Gi"]


@pytest.mark.parametrize("text", TAKEN + REFUSED)
def test_files_and_api_server_take_the_same_quantities(text: str) -> None:
    pattern = SPEC[".spec.pools.interactive.vram"]["pattern"]
    found = problems(changed(CPU, {"spec.pools.interactive.vram": text}))
    if text == "0.001Ti":  # fits the pattern, and a rule in CEL refuses the fraction of a byte
        assert "whole number" in found[0].text
        return
    assert ("spec.pools.interactive.vram" not in fields(found)) == (text in TAKEN)
    assert (re.search(pattern, text) is not None) == (text in TAKEN)


def test_what_the_router_is_given_fits_the_schema() -> None:
    """Every key of a filled pool is a property of the schema."""
    for base in (CPU, GPU):
        stack: list[tuple[Any, dict[str, Any], str]] = [
            (defaults.filled(pool(base))["spec"], NODES[".spec"], "spec")
        ]
        while stack:
            value, node, path = stack.pop()
            if isinstance(value, dict) and "properties" in node:
                for key, child in value.items():
                    assert key in node["properties"], f"{path}.{key}"
                    stack.append((child, node["properties"][key], f"{path}.{key}"))
