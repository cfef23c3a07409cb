"""A file is read as a whole: every problem at once, each at its line, and nothing is guessed."""

from pathlib import Path

import pytest

from splitpool_operator.declaration import defaults, reading
from splitpool_operator.declaration.pool import from_object
from splitpool_operator.declaration.problems import PoolFileError, Problem, field
from splitpool_operator.declaration.rules import update_problems
from unit.pool_files import CPU, GPU, changed, fields, pool, problems, read

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

HEALTHY = """\
apiVersion: splitpool.dev/v1alpha1
kind: InferencePool
metadata: {name: assistant}
spec:
  model:
    name: smollm2
    source: file:///models/smollm2.gguf
  accelerator: {type: cpu, memory: 4Gi}
  pools:
    interactive: {vram: 1Gi}
    batch: {vram: 2Gi}
"""


def refused(text: str) -> list[Problem]:
    with pytest.raises(PoolFileError) as error:
        reading.read("pool.yaml", text.encode())
    return list(error.value.problems)


def test_problems_of_all_kinds_are_told_together_in_the_order_of_the_file() -> None:
    text = (
        HEALTHY.replace("    name: smollm2\n", "    name: smollm2\n    nmae: x\n")
        .replace("{vram: 1Gi}", "{vram: 1GB, maxBatch: 99}")
        .replace("kind: Inf", "topology: Split\nkind: Inf")
    )

    found = refused(text)

    assert [(field(p.path), p.line) for p in found] == [
        ("topology", 2),
        ("spec.model.nmae", 8),
        ("spec.pools.interactive.vram", 12),
        ("spec.pools.interactive.maxBatch", 12),
    ]


def test_the_column_points_at_the_key() -> None:
    (problem,) = refused(HEALTHY.replace("{vram: 2Gi}", "{vram: 2Gi, maxWaitMs: 1}"))
    assert (problem.line, problem.column) == (10, 5)
    (problem,) = refused(HEALTHY.replace("{vram: 2Gi}", "{vram: 2Gi, stream: 7}"))
    assert (problem.line, problem.column) == (11, 24)


def test_a_problem_is_shown_as_editors_expect_it() -> None:
    (problem,) = refused(HEALTHY.replace("vram: 1Gi", "vram: 9Gi"))
    assert problem.show("pool.yaml").startswith("pool.yaml:10:19: spec.pools.interactive.vram: 9Gi")


def test_rules_speak_about_the_healthy_rest_of_a_file_with_broken_values() -> None:
    found = problems(changed(CPU, {"spec.model.name": 3, "spec.pools.interactive.maxWaitMs": 400}))
    assert set(fields(found)) == {"spec.model.name", "spec.pools.interactive.maxWaitMs"}


def test_a_rule_is_silent_while_a_field_that_it_reads_is_broken() -> None:
    found = problems(changed(CPU, {"spec.pools.interactive.vram": "9GB"}))
    assert fields(found) == ["spec.pools.interactive.vram"]


def test_duplicate_keys_are_each_told_with_both_lines() -> None:
    text = HEALTHY.replace("  model:\n", "  topology: Split\n  topology: Shared\n  model:\n")
    found = refused(text + "kind: InferencePool\n")
    assert [(field(p.path), p.line) for p in found] == [("spec.topology", 6), ("kind", 14)]
    assert "duplicate key, first written in line 5" in found[0].text
    assert "line 2" in found[1].text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("spec: [", 1),
        ("a: b: c", 1),
        ("a: 1\n\tb: 2", 2),
        ("a: 'open", 1),
        ("a: 1\n b: 2", 2),
        ("a: *nowhere", 1),
        ("a: &x\n  b: *x: c: d", 2),
    ],
)
def test_broken_yaml_is_told_with_its_line(text: str, line: int) -> None:
    (problem,) = refused(text)
    assert problem.code == "BrokenYAML"
    assert problem.line is not None
    assert abs(problem.line - line) <= 1
    assert f"line {problem.line}" in problem.text


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "{a: " * 3000 + "1" + "}" * 3000])
def test_endless_nesting_is_told_as_such(text: str) -> None:
    (problem,) = refused(text)
    assert "more than 32 levels" in problem.text


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"---\n---\n"])
def test_an_empty_file_is_refused(content: bytes) -> None:
    with pytest.raises(PoolFileError, match="declares nothing"):
        reading.read("pool.yaml", content)


@pytest.mark.parametrize("content", [b"just words", b"- a\n- b\n", b"42"])
def test_a_document_that_is_no_mapping_is_refused(content: bytes) -> None:
    with pytest.raises(PoolFileError, match="a document is a mapping"):
        reading.read("pool.yaml", content)


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    with pytest.raises(PoolFileError, match="not UTF-8") as error:
        reading.read("pool.yaml", b"a: 1\nb: \xff\xfe\n")
    assert error.value.problems[0].line == 2


def test_control_characters_are_refused() -> None:
    with pytest.raises(PoolFileError, match="not YAML"):
        reading.read("pool.yaml", b"a: \x00\n")


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(PoolFileError, match="more than the 1048576 bytes allowed"):
        reading.read_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spec:\n  ? [a, b]\n  : 3", "p:2:5: spec: has a list for a key; write a name"),
        ("spec:\n  {a: b}: 3", "p:2:3: spec: has a mapping for a key; write a name"),
        ("\n'x': 1\n\"\\ud800\": 1", "p:3:1: has a key with the half character \\ud800"),
        ('kind: "a\\ud800"', "p:1:7: kind: has the half character \\ud800"),
        ("kind: !!bool maybe", "p:1:7: kind: 'maybe' cannot be read as !!bool"),
        ("kind: !thing x", "p:1:7: kind: 'x' cannot be read as !thing"),
        (f"kind: 1{'0' * 5000}", "p:1:7: kind: '1000000000"),
    ],
)
def test_what_no_field_can_hold_is_told_in_our_words_with_its_place(text: str, said: str) -> None:
    with pytest.raises(PoolFileError) as refused:
        reading.read("p", text.encode())
    told = str(refused.value).splitlines()
    assert len([line for line in told if said in line]) == 1
    assert len([line for line in told if ": kind: " in line]) <= 1


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(PoolFileError, match="more than the 1048576 bytes allowed"):
        reading.read("pool.yaml", b"[" * (1024**2 + 1))


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x]"]
    for name, last in zip("bcdefgh", "abcdefg", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{last}'] * 8)}]")
    with pytest.raises(PoolFileError, match="aliases count"):
        reading.read("pool.yaml", "\n".join(lines).encode())


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(PoolFileError):
        reading.read("pool.yaml", b"a: &a\n  b: *a\n")


def test_anchors_and_merge_keys_work() -> None:
    text = HEALTHY.replace("{vram: 1Gi}", "&class {vram: 1Gi, maxBatch: 5}").replace(
        "{vram: 2Gi}", "{<<: *class, vram: 2Gi}"
    )
    (only,) = reading.read("pool.yaml", text.encode())
    assert (only.spec.pools.batch.vram, only.spec.pools.batch.max_batch) == (2 * 1024**3, 5)


def test_the_second_pool_of_one_model_name_is_refused() -> None:
    second = changed(CPU, {"metadata.name": "other"})
    (problem,) = problems(CPU, second)
    assert problem.code == "ModelNameConflict"
    assert "smollm2 is already served by the earlier pool default/assistant" in problem.text
    assert problem.line is not None
    assert problem.line > 20


def test_two_pools_of_one_name_are_refused() -> None:
    (problem,) = problems(CPU, changed(CPU, {"spec.model.name": "other"}))
    assert (problem.code, field(problem.path)) == ("NameConflict", "metadata.name")


def test_two_pools_that_differ_are_read() -> None:
    second = changed(CPU, {"metadata.name": "other", "spec.model.name": "other"})
    assert [each.metadata.name for each in read(CPU, second)] == ["assistant", "other"]


def test_an_object_of_an_api_server_may_hold_fields_that_are_not_known_here() -> None:
    raw = changed(GPU, {"spec.later": 1, "metadata.managedFields": [{}], "status.phase": "x"})
    assert from_object(raw).spec.pools.batch.vram == 40 * 1024**3


def test_what_kubectl_prints_reads_back() -> None:
    extra = {
        "metadata.uid": "1-2",
        "metadata.resourceVersion": "7",
        "metadata.creationTimestamp": "2026-01-01T00:00:00Z",
        "status": {"conditions": []},
    }
    assert problems(changed(GPU, extra)) == []


def test_the_type_of_the_accelerator_is_immutable_and_nothing_else_is() -> None:
    old = pool(GPU).spec
    assert list(update_problems(old, pool(GPU, {"spec.model.name": "other"}).spec)) == []
    (problem,) = update_problems(old, pool(GPU, {"spec.accelerator.type": "amd"}).spec)
    assert "immutable" in problem.text


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_examples_are_healthy(file: Path) -> None:
    assert reading.read_file(file)


def test_constant_defaults_are_those_of_the_contract() -> None:
    spec = pool(CPU).spec
    interactive, batch = spec.pools.interactive, spec.pools.batch
    assert (spec.model.dtype, spec.model.quantization, spec.topology) == (
        "bfloat16",
        "none",
        "Split",
    )
    assert (interactive.max_batch, interactive.max_wait_ms, interactive.stream) == (8, 30, True)
    assert (batch.max_batch, batch.max_wait_ms, batch.stream) == (64, 300, False)
    assert (interactive.ttft_p99_ms, batch.ttft_p99_ms) == (500, None)
    assert (interactive.queue_timeout_seconds, batch.queue_timeout_seconds) == (10, 600)
    assert (interactive.drain_seconds, batch.drain_seconds) == (120, 600)
    assert (interactive.max_length_ratio, interactive.prefix_cache) == (4, True)
    assert interactive.host_memory == 1024**3
    assert (spec.resume.mode, spec.resume.window_seconds) == ("OnRequest", 30)
    assert spec.resume.buffer_bytes == 4 * 1024**2
    assert (spec.routing.default_class, spec.routing.spill_to_batch) == ("interactive", False)
    assert spec.autoscaling.mode == "Off"


@pytest.mark.parametrize(
    ("memory", "expected"), [("80Gi", 3435973836), ("16Gi", 2 * 1024**3), ("50Gi", 2 * 1024**3)]
)
def test_the_headroom_of_a_gpu_is_the_larger_of_2_gib_and_4_per_cent(
    memory: str, expected: int
) -> None:
    raw = changed(GPU, {"spec.accelerator": {"memory": memory, "count": 9}})
    raw = changed(raw, {"spec.pools": {"interactive": {"vram": "1Gi"}, "batch": {"vram": "1Gi"}}})
    assert defaults.headroom(pool(raw).spec) == expected


def test_defaults_that_depend_on_the_accelerator_are_filled_in() -> None:
    cpu, gpu = defaults.filled(pool(CPU))["spec"], defaults.filled(pool(GPU))["spec"]
    keys = ("tokenBudget", "prefillChunk", "maxStepMs")
    assert [cpu["pools"]["interactive"][key] for key in keys] == [256, 128, 100]
    assert [cpu["pools"]["batch"][key] for key in keys] == [512, 256, 100]
    assert [gpu["pools"]["interactive"][key] for key in keys] == [2048, 512, 50]
    assert [gpu["pools"]["batch"][key] for key in keys] == [8192, 2048, 50]
    assert "sharing" not in cpu
    assert cpu["accelerator"]["headroom"] == "0"
    assert gpu["sharing"]["minimumEnforcement"] == "Cooperative"
    assert gpu["autoscaling"]["interactive"] == {"minReplicas": 1, "maxReplicas": 2}
    assert gpu["autoscaling"]["batch"]["minReplicas"] == 0


def test_the_filled_object_reads_back_as_the_same_pool() -> None:
    filled = defaults.filled(pool(GPU))
    (again,) = read(filled)
    assert defaults.filled(again) == filled
