"""The `splitpool` command: what it prints, where, and with which exit status."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from splitpool import commands, completion, main, plan_command
from unit.pool_files import CPU, GPU, changed

ROOT = Path(__file__).parents[2]
FAKES = ROOT / "tests" / "fakes"


@pytest.fixture(autouse=True)
def fake_inspect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Models are read by a stand-in; the file that says how it behaves."""
    script = tmp_path / "script"
    script.write_text("{}")
    monkeypatch.setenv("FAKE_SCRIPT", str(script))
    command = (sys.executable, str(FAKES / "fake_inspect.py"))
    monkeypatch.setattr(plan_command, "INSPECT", command)
    return script


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


def declared(folder: Path, *documents: dict[str, object]) -> str:
    file = folder / "pool.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents))
    return str(file)


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"splitpool {version('splitpool')}\n"


def test_help_shows_every_command_with_examples_and_exit_statuses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    for word in ("up", "plan", "crd", "completion", "examples:", "exit status:", "port taken"):
        assert word in text


@pytest.mark.parametrize("arguments", [(), ("up",), ("fly",), ("up", "x", "--port", "99999")])
def test_wrong_usage_is_told_on_stderr(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: splitpool" in said.err


def test_the_plan_shows_what_every_quota_goes_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = changed(CPU, {"spec.model.maxModelLen": 2048})
    assert run("plan", declared(tmp_path, raw)) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.startswith("cpu  ")]
    assert rows[0][1:3] == ["assistant-interactive-0", "interactive"]
    assert rows[0][4:] == ["1Gi", "0", "256.82Mi", "30Mi", "736.88Mi", "33536", "16"]
    assert rows[1][4] == "2Gi"
    assert "cpu: 3Gi of 4Gi in quotas, 0 headroom, 1Gi left" in text


def test_the_plan_of_a_model_that_is_elsewhere_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", declared(tmp_path, GPU)) == 0
    text = capsys.readouterr().out
    assert "pvc://models/smollm2 is not on this machine" in text
    assert "GPU 0: 72Gi of 80Gi in quotas, 4Gi headroom, 4Gi left" in text
    assert "GPU 1" in text


def test_the_plan_as_json_holds_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", declared(tmp_path, CPU), "-o", "json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    (first, second) = shown["workers"]
    (part,) = first["classes"]
    assert part["quota"] == 1024**3
    parts = ("context", "weights", "workspace", "kv", "spare")
    assert sum(part[name] for name in parts) == part["quota"]
    assert shown["devices"] == [
        {"gpu": None, "memory": 4 * 1024**3, "headroom": 0, "quotas": 3 * 1024**3, "left": 1024**3}
    ]
    assert second["name"] == "assistant-batch-0"


def test_a_model_that_is_missing_leaves_the_table_and_exit_status_4(
    tmp_path: Path, fake_inspect: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_inspect.write_text(json.dumps({"inspect": {"exit": 4, "error": {"message": "gone"}}}))
    assert run("plan", declared(tmp_path, CPU)) == 4
    said = capsys.readouterr()
    assert "assistant-batch-0" in said.out
    assert "/models/smollm2.gguf: gone" in said.err


def test_a_quota_that_is_too_small_is_exit_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = changed(CPU, {"spec.pools.batch.vram": "288Mi"})
    assert run("plan", declared(tmp_path, raw)) == 3
    assert "spec.pools.batch.vram: 288Mi is too small" in capsys.readouterr().err


def test_a_placement_that_does_not_exist_is_exit_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = changed(
        GPU,
        {
            "spec.pools.interactive": {"vram": "40Gi", "replicas": 3},
            "spec.pools.batch": {"vram": "30Gi", "replicas": 1},
        },
    )
    assert run("plan", declared(tmp_path, raw)) == 3
    assert "do not fit 2 x 76Gi" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "plan"])
def test_a_broken_file_is_exit_status_2_with_every_problem(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = changed(CPU, {"spec.model.name": 3, "spec.toplogy": "Split"})
    file = declared(tmp_path, raw)
    assert run(command, file) == 2
    said = capsys.readouterr().err
    assert f"{file}:1:" in said
    assert "did you mean topology?" in said
    assert "2 problems, nothing was started" in said


@pytest.mark.parametrize("command", ["up", "plan"])
def test_a_file_that_is_not_there_is_exit_status_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command, str(tmp_path / "none.yaml")) == 2
    assert "none.yaml: cannot be read: No such file" in capsys.readouterr().err


def test_two_pools_are_planned_on_gpus_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = changed(GPU, {"metadata.name": "other", "spec.model.name": "other"})
    assert run("plan", declared(tmp_path, GPU, second), "-o", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [device["gpu"] for each in shown for device in each["devices"]] == [0, 1, 2, 3]


def test_the_crd_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("crd") == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "crds" / "inferencepools.yaml").read_text()
    assert run("crd", "-o", str(tmp_path / "crd.yaml")) == 0
    assert (tmp_path / "crd.yaml").read_text() == printed
    assert run("crd", "-o", str(tmp_path / "none" / "crd.yaml")) == 6


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("up", "plan", "crd", "completion", "state-dir"):
        assert word in script


def test_completion_in_bash_offers_commands_and_options(tmp_path: Path) -> None:
    text = completion.script("bash", commands.parser())
    probe = """
COMP_WORDS=(splitpool u); COMP_CWORD=1; _splitpool; echo "${COMPREPLY[@]}"
COMP_WORDS=(splitpool up --st); COMP_CWORD=2; _splitpool; echo "${COMPREPLY[@]}"
COMP_WORDS=(splitpool completion f); COMP_CWORD=2; _splitpool; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(
        ["bash", "-c", text + probe], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["up", "--state-dir", "fish"]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.stem
)
def test_every_example_can_be_planned(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", str(file)) == 0
    assert "pool default/" in capsys.readouterr().out


def test_render_prints_the_objects_that_the_operator_applies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = declared(tmp_path, changed(CPU, {"spec.podTemplate": {"env": []}}))
    assert run("render", file, "--worker-image", "worker:9") == 0
    made = list(YAML(typ="safe", pure=True).load_all(capsys.readouterr().out))
    assert [each["kind"] for each in made if each["metadata"]["name"] == "assistant-batch"] == [
        *("ServiceAccount", "Service", "PodDisruptionBudget", "Deployment")
    ]
    images = [
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in made
        if each["kind"] == "Deployment"
    ]
    assert images == ["worker:9", "worker:9"]


def test_render_refuses_sharing_that_the_accelerator_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amd = {"spec.accelerator.type": "amd", "spec.sharing.mode": "MPS"}
    assert run("render", declared(tmp_path, changed(GPU, amd))) == 2
    assert "use DRA or Exclusive" in capsys.readouterr().err
