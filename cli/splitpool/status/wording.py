"""What of a text from the cluster may a terminal see, and how many things are there?"""

import unicodedata


def clean(text: object) -> str:
    """On one line and without control characters: what a program said may hold any."""
    words = " ".join(str(text).split())
    return "".join(c if unicodedata.category(c) not in {"Cc", "Cf", "Cs"} else "?" for c in words)


def count(number: int, thing: str) -> str:
    """As in 1 pod, 2 pods."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
