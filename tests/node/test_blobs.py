"""The registry keeps the layers that were used last."""

import os
from pathlib import Path

from node.blobs import trim


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    (tmp_path / "sha256").mkdir()
    for day, name in enumerate(["upload-1", "sha256/old", "sha256/new"]):
        (tmp_path / name).write_bytes(b"12345")
        os.utime(tmp_path / name, (day, day))

    trim(tmp_path, limit_bytes=10)

    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"old", "new"}


def test_what_was_read_since_it_was_written_stays(tmp_path: Path) -> None:
    for name, read in (("base", 9), ("code", 5)):
        (tmp_path / name).write_bytes(b"12345")
        os.utime(tmp_path / name, (read, 1))

    trim(tmp_path, limit_bytes=5)

    assert [file.name for file in tmp_path.iterdir()] == ["base"]
