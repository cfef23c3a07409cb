"""What keeps a pool from starting is said in a line that names it, and leaves nothing running."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from splitpool_bench.chain import free_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "smollm2.yaml"
SPLITPOOL = str(Path(sys.executable).with_name("splitpool"))


def up(file: Path, *flags: str) -> tuple[int, str]:
    """Exit status and everything printed by `splitpool up`."""
    command = [SPLITPOOL, "up", str(file), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def changed(folder: Path, pattern: str, replacement: str) -> Path:
    """The example with one change."""
    text, count = re.subn(pattern, replacement, EXAMPLE.read_text(), count=1)
    assert count == 1, f"the example has no {pattern}"
    file = folder / "pool.yaml"
    file.write_text(text)
    return file


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])

        status, said = up(EXAMPLE, "--port", port)

    assert status != 0
    assert port in said


def test_a_model_that_is_missing_is_named(tmp_path: Path) -> None:
    file = changed(tmp_path, r"source: \S+", "source: file:///no/such/model.gguf")

    status, said = up(file, "--port", str(free_port()))

    assert status != 0
    assert "/no/such/model.gguf" in said


def test_a_log_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    occupied = tmp_path / "a-file"
    occupied.write_text("")

    status, said = up(EXAMPLE, "--port", str(free_port()), "--log-dir", str(occupied / "logs"))

    assert status != 0
    assert str(occupied / "logs") in said


def test_a_quota_that_holds_no_sequence_is_refused_with_the_numbers(tmp_path: Path) -> None:
    file = changed(tmp_path, r"vram: \w+", "vram: 300Mi")

    status, said = up(file, "--port", str(free_port()))

    assert status != 0
    assert re.search(r"300\s?Mi|314,?572,?800", said)


@pytest.mark.parametrize(
    ("pattern", "replacement", "named"),
    [
        pytest.param(r"spec:", "spec: [", "line", id="broken YAML"),
        pytest.param(r"(\n  topology: .*|\nspec:)", r"\1\1", "duplicate", id="a key twice"),
        pytest.param(r"vram: \w+", "vram: 1GB", "1GB", id="a wrong unit"),
        pytest.param(r"vram: \w+", "vram: 900Gi", "900Gi", id="a quota over the memory"),
        pytest.param(r"vram:", "vramm:", "vram", id="a field misspelt"),
        pytest.param(
            r"(\n +)(source: \S+)", r"\1\2\1quantization: int4", "quantization", id="int4"
        ),
    ],
)
def test_a_pool_file_that_is_wrong_is_refused_by_what_is_wrong(
    tmp_path: Path, pattern: str, replacement: str, named: str
) -> None:
    file = changed(tmp_path, pattern, replacement)

    status, said = up(file, "--port", str(free_port()))

    assert status != 0
    assert named in said
    assert "pool.yaml" in said


def test_two_pools_of_one_model_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    one = EXAMPLE.read_text()
    name = re.search(r"metadata: *\{? *\n? *name: ([\w-]+)", one)
    assert name
    file.write_text(f"{one}\n---\n{one.replace(name[1], name[1] + '-2')}")

    status, said = up(file, "--port", str(free_port()))

    assert status != 0
    assert "name" in said
