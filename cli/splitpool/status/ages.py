"""How long ago was that, in the shortest words?"""

import datetime

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def since(moment: str | None, now: datetime.datetime) -> datetime.timedelta | None:
    """The time since an RFC 3339 moment; None where there is none, or none that can be read."""
    try:
        then = datetime.datetime.fromisoformat(moment or "")
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    # Clocks of two machines differ: what happened in a moment happened now.
    return max(now - then, datetime.timedelta())


def short(age: datetime.timedelta | None) -> str:
    """As `kubectl get` writes ages: 45s, 3m, 5h, 12d; `?` where it is not known."""
    if age is None:
        return "?"
    seconds = int(age.total_seconds())
    unit, size = next((each for each in _UNITS if seconds >= 2 * each[1]), _UNITS[-1])
    return f"{seconds // size}{unit}"
