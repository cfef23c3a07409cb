"""Quantities mean exactly the bytes that Kubernetes would read, and a wrong unit is explained."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_quantity import quantity

KNOWN = {
    "0": 0,
    "1": 1,
    "1k": 1000,
    "1Ki": 1024,
    "20Gi": 20 * 2**30,
    "1.5Gi": 3 * 2**29,
    ".5Gi": 2**29,
    "5.Mi": 5 * 2**20,
    "1M": 10**6,
    "1G": 10**9,
    "1T": 10**12,
    "1P": 10**15,
    "1E": 10**18,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1Ei": 2**60,
    "1e3": 1000,
    "1E3": 1000,
    "1.25e+6": 1_250_000,
    "12e9": 12 * 10**9,
    "2000000m": 2000,
    "5000000000u": 5000,
    "7000000000n": 7,
    "+3Mi": 3 * 2**20,
}


@pytest.mark.parametrize(("text", "count"), KNOWN.items())
def test_every_suffix_means_its_exact_number_of_bytes(text: str, count: int) -> None:
    assert quantity.to_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("32GB", '"32Gi"'),
        ("32 Gb", '"32Gi"'),
        ("32g", '"32Gi"'),
        ("32gi", '"32Gi"'),
        ("32GiB", '"32Gi"'),
        ("32 gib", '"32Gi"'),
        ("512mb", '"512Mi"'),
        ("64KB", '"64k"'),
        ("1.5 TB", '"1.5Ti"'),
        ("80 Gi", '"80Gi"'),
    ],
)
def test_a_wrong_unit_is_answered_with_the_right_one(text: str, remedy: str) -> None:
    with pytest.raises(quantity.QuantityError) as refused:
        quantity.to_bytes(text)
    assert remedy in str(refused.value)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "Gi", "one", "1..5Gi", "0x10", "1e", "1e3Gi", "--1", "1_000", "٣Gi", "inf", "nan"],
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.parse(text)


def test_a_very_long_number_is_refused_without_computing_it() -> None:
    with pytest.raises(quantity.QuantityError):
        quantity.parse("1" * 1000)


@pytest.mark.parametrize("text", ["100m", "0.5", "1.1Gi", "1e-3"])
def test_a_fraction_of_a_byte_is_no_number_of_bytes(text: str) -> None:
    with pytest.raises(quantity.QuantityError, match="not a whole number"):
        quantity.to_bytes(text)


def test_a_negative_number_of_bytes_is_refused() -> None:
    with pytest.raises(quantity.QuantityError, match="negative"):
        quantity.to_bytes("-1Gi")


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**63))
def test_what_is_shown_reads_back_as_the_same_bytes(count: int) -> None:
    assert quantity.to_bytes(quantity.show(count)) == count


@settings(deadline=None)
@given(
    st.integers(min_value=0, max_value=10**12),
    st.integers(min_value=0, max_value=999),
    st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]),
)
def test_parsing_is_exact_decimal_arithmetic(whole: int, thousandths: int, suffix: str) -> None:
    unit = 1024 ** "_KMGT".index(suffix[0].upper()) if suffix.endswith("i") else None
    power = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.get(suffix)
    factor = unit if unit is not None else power
    assert factor is not None
    expected = (Fraction(whole) + Fraction(thousandths, 1000)) * factor
    assert quantity.parse(f"{whole}.{thousandths:03d}{suffix}") == expected


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=2**50))
def test_the_short_form_for_people_is_within_one_per_cent(count: int) -> None:
    shown = quantity.approximate(count)
    assert len(shown) <= 9
    assert abs(quantity.parse(shown) - count) <= count / 100
