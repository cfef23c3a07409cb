"""Golden files: what the pure core makes of the examples, reviewed by eye when it changes."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GOLDEN = ROOT / "tests" / "golden"


def check(name: str, text: str) -> None:
    """Fails where the file says something else; `make golden` writes it."""
    file = _GOLDEN / name
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text(), f"{name} differs; run: make golden"
