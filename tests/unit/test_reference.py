"""The page of fields in the documentation is the model's."""

import os
from pathlib import Path

from splitpool_operator.declaration import reference

PAGE = Path(__file__).parents[2] / "docs" / "inferencepool.md"


def test_the_page_of_fields_is_what_the_model_says() -> None:
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        PAGE.write_text(reference.page())
    assert PAGE.read_text() == reference.page(), "run: make golden"
