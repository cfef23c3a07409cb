"""The `splitpool` command: what it prints, where, and with which exit status."""

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from splitpool import commands, completion, main, plan_command, plugin
from splitpool_operator.local import refusals
from splitpool_operator.local.refusals import Refused
from splitpool_operator.planning.plan import plan
from unit.pool_files import CPU, GPU, changed, pool

COMMANDS = commands.by_name(commands.parser())
SPLITPOOL = (sys.executable, "-c", "from splitpool.main import main; main()")
ROOT = Path(__file__).parents[2]
INSPECT = (sys.executable, str(ROOT / "tests" / "fakes" / "fake_inspect.py"))


@pytest.fixture(autouse=True)
def fake_inspect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Models are read by a stand-in; the file that says how it behaves."""
    script = tmp_path / "script"
    script.write_text("{}")
    monkeypatch.setenv("FAKE_SCRIPT", str(script))
    monkeypatch.setattr(plan_command, "INSPECT", INSPECT)
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


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_command_teaches_by_examples_and_names_its_exit_statuses(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("help", command) == 0
    text = capsys.readouterr().out
    assert "examples:\n  " in text
    assert f"splitpool {command}" in text.partition("examples:")[2]
    assert "exit status:\n  0  " in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stauts",), "'stauts' is no command; did you mean status? see splitpool --help"),
        (
            ("fly",),
            "'fly' is no command; known: up, plan, status, bench, render, crd, completion; see",
        ),
        (("plan", "x", "--ouput", "json"), "'--ouput' is not known here; did you mean --output?"),
        (("plan", "x", "-o", "jsn"), "is nothing that -o/--output takes; did you mean json?"),
        (("plan",), "the following arguments are required: FILE; see splitpool plan --help"),
        (("status", "a", "-A"), "-A shows all pools; leave out NAME"),
    ],
)
def test_what_was_meant_is_named(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["plan pool.yaml", "plan pool.yaml -o json", "render pool.yaml", "crd", "--help", "--version"],
)
def test_a_full_disk_is_told_and_exit_status_6(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    declared(tmp_path, changed(GPU, {}))
    monkeypatch.chdir(tmp_path)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(*command.split()) == 6
    assert capsys.readouterr().err == (
        "splitpool: standard output cannot be written: No space left on device; free room or write "
        "elsewhere\n"
    )


def test_a_reader_that_goes_away_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert run("crd") == 141
    assert capsys.readouterr().err == ""


def test_streams_that_are_closed_are_no_crash(tmp_path: Path) -> None:
    declared(tmp_path, changed(GPU, {}))
    assert shell("plan pool.yaml >&-", tmp_path).returncode == 0
    assert shell("plan none.yaml 2>&-", tmp_path).returncode == 2
    assert shell("plan none.yaml 2> /dev/full", tmp_path).returncode == 2
    closed = shell("plan - <&-", tmp_path)
    assert closed.returncode == 2
    assert (
        closed.stderr == "-: cannot be read: Bad file descriptor; check the path and its "
        "permissions\n"
    )


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command from a shell, which can close streams."""
    line = f"{shlex.join(SPLITPOOL)} {command}"
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False
    )


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


def test_a_length_that_the_model_lacks_is_told_as_that_field(
    tmp_path: Path, fake_inspect: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "maxModelLen 9000: this model has positions for 1 to 8192 tokens; give a value in that"
    error = {"code": "bad_model_length", "message": said}
    fake_inspect.write_text(json.dumps({"inspect": {"exit": 2, "error": error}}))
    raw = changed(CPU, {"spec.model.maxModelLen": 9000})
    assert run("plan", declared(tmp_path, raw)) == 2
    told = capsys.readouterr().err
    assert told == f"splitpool: spec.model.{said}\n"
    with pytest.raises(Refused) as refused:
        refusals.check_model(plan(pool(raw), cores=1), INSPECT)
    assert (refused.value.code, str(refused.value)) == (2, f"spec.model.{said}")


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
    ("words", "expected"),
    [
        (["st"], ["status"]),
        (["nothing", ""], []),
        (["plan", "--o"], ["--output"]),
        (["plan", "-o", ""], ["table", "json"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["status", "-n", ""], []),
    ],
)
def test_the_words_that_may_follow(words: list[str], expected: list[str]) -> None:
    assert completion.candidates(completion.commands(commands.parser()), words) == expected


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ([], "up\nplan\nstatus\nbench\nrender\ncrd\ncompletion\n--help\n--version\n:4\n"),
        (["plan", ""], ":0\n"),
        (["status", "-o", "j"], "json\n:4\n"),
        (["status", "--kubeconfig", "/none", ""], ":4\n"),
    ],
)
def test_kubectl_is_told_the_words_and_whether_files_fit(
    words: list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        plugin.complete(words)
    assert capsys.readouterr().out == printed


def test_kubectl_is_told_of_a_full_disk_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="6"):
            plugin.complete(["plan"])
    assert capsys.readouterr().err.startswith("kubectl splitpool: standard output cannot be")


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
