"""The operator's page lists every reason that a condition can give."""

import ast
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitpool_operator.__main__ import main
from splitpool_operator.reporting import reasons

PAGE = Path(__file__).parents[2] / "docs" / "operator.md"
BEGIN, END = "<!-- reasons:", "<!-- end of reasons -->"


def rows() -> Iterator[str]:
    """Of each reason: its word, its conditions, what it means and what helps."""
    body = ast.parse(Path(reasons.__file__).read_text()).body
    for constant, words in itertools.pairwise(body):
        match constant, words:
            case (
                ast.Assign(value=ast.Constant(value=str(reason))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                where, _, meaning = " ".join(text.split()).partition(": ")
                yield f"| `{reason}` | {where} | {meaning} |\n"


def test_the_page_lists_every_reason_in_its_own_words() -> None:
    text = PAGE.read_text()
    begin, end = text.index("\n", text.index(BEGIN)) + 1, text.index(END)
    head = "\n| reason | of the condition | meaning, and what helps |\n|---|---|---|\n"
    expected = text[:begin] + head + "".join(rows()) + "\n" + text[end:]
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected, "run: make golden"


def test_every_reason_says_what_it_means() -> None:
    words = {each for name, each in vars(reasons).items() if name.isupper()}
    told = {row.split("`")[1] for row in rows()}
    assert told == words


def test_every_flag_stands_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    flags = {*re.findall(r"--[a-z-]+", capsys.readouterr().out)} - {"--help"}
    assert {each for each in flags if f"`{each}" not in text} == set()
