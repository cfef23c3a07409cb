"""How many bytes does a Kubernetes quantity such as "20Gi" mean, and how are bytes written?

The grammar is that of k8s.io/apimachinery's resource.Quantity; arithmetic is exact.
"""

import re
from fractions import Fraction

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([eE])([+-]?[0-9]{1,3})|([A-Za-z]*))", re.ASCII
)
_LONGEST = 64
_LETTERS = {"k": "k", "m": "M", "g": "G", "t": "T", "p": "P", "e": "E"}


class QuantityError(ValueError):
    """The text is no quantity or no whole number of bytes; the message says what to write."""


def parse(text: str) -> Fraction:
    """The exact value of a quantity. Raises QuantityError with a remedy."""
    match = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(f"{text[:_LONGEST]!r} is not a quantity; {_remedy(text)}")
    sign, number, exponential, exponent, suffix = match.groups()
    value = Fraction("0" + number if number.startswith(".") else number.rstrip("."))
    if sign == "-":
        value = -value
    if exponential:
        return value * Fraction(10) ** int(exponent)
    return value * _unit(text, suffix)


def to_bytes(text: str) -> int:
    """The quantity as a whole, non-negative number of bytes. Raises QuantityError with a remedy."""
    value = parse(text)
    if value < 0:
        raise QuantityError(f"{text!r} is negative; a number of bytes is not")
    if value.denominator != 1:
        raise QuantityError(
            f"{text!r} is {float(value):g} bytes, not a whole number; {_whole_remedy(value)}"
        )
    return value.numerator


def show(count: int) -> str:
    """The shortest exact binary form: "1536Mi", "20Gi", or plain bytes: "1000"."""
    for suffix, power in reversed(_BINARY.items()):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{suffix}"
    return str(count)


def approximate(count: int) -> str:
    """At most two decimals, for people: "1.50Gi", "230.40Mi"; exact where the number allows it."""
    exact = show(count)
    if len(exact) <= 6:
        return exact
    suffix, power = max(
        ((s, p) for s, p in _BINARY.items() if 1024**p <= abs(count)),
        key=lambda item: item[1],
        default=("", 0),
    )
    return f"{count / 1024**power:.2f}{suffix}" if suffix else exact


def _unit(text: str, suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1024) ** _BINARY[suffix]
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    raise QuantityError(
        f"{text!r} has the unit {suffix!r}, which Kubernetes does not know; {_remedy(text)}"
    )


def _remedy(text: str) -> str:
    """What the writer most likely meant: 32GB, 32 Gb, 32g, 32GiB and the like."""
    meant = re.fullmatch(
        r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgtpe])(i?)(b?|bytes?|bits?)\s*", text, re.IGNORECASE
    )
    if meant is None:
        return 'write a number and a unit without a space, such as "80Gi" or "512Mi"'
    number, letter = meant.group(1), _LETTERS[meant.group(2).lower()]
    binary = f"{number}{letter.upper()}i"
    if meant.group(3):
        return f'write "{binary}"'
    power = _BINARY[f"{letter.upper()}i"]
    decimal = f"{number}{letter}"
    return f'write "{binary}" (x 1024^{power}, as GPU tools count) or "{decimal}" (x 1000^{power})'


def _whole_remedy(value: Fraction) -> str:
    mebibytes = value.numerator // (value.denominator * 1024**2)
    return (
        f'write "{mebibytes}Mi"'
        if mebibytes
        else 'write whole bytes or a larger unit, such as "512Mi"'
    )
