"""The chart's README lists every value, in the words of values.yaml."""

import os

from chart.values_table import README, page, values


def test_the_table_is_what_the_values_say() -> None:
    text = README.read_text()
    expected = page(text)
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        README.write_text(expected)
    assert README.read_text() == expected, "run: make golden"


def test_every_value_says_what_it_means() -> None:
    assert [each.path for each in values() if not each.words] == []
