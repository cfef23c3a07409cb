"""Bytes as plain integers or as Kubernetes quantities."""

import re

_FACTORS = {
    "": 1,
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTPE", start=1)},
    **{prefix: 1000**power for power, prefix in enumerate("kMGTPE", start=1)},
}


def parse(text: str) -> int:
    """`4Gi` -> 4294967296. Raises ValueError with a remedy."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTPE]i|[kMGTPE]|)", text.strip())
    if match is None:
        raise ValueError("write bytes as 4294967296, 4Gi or 500M")
    number, unit = match.groups()
    return int(float(number) * _FACTORS[unit]) if "." in number else int(number) * _FACTORS[unit]
