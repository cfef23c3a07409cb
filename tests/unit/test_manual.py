"""The page about the command is what its help says."""

import os
from pathlib import Path

from splitpool import manual

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_about_the_command_is_what_its_help_says() -> None:
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        PAGE.write_text(manual.page())
    assert PAGE.read_text() == manual.page(), "run: make golden"
