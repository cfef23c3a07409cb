"""How is a pool's state given to programs: as one plain object for JSON and YAML?"""

import datetime
from dataclasses import fields, is_dataclass
from typing import Any

from splitpool.status.glance import Glance

_SHOWN_AS_IS = (str, int, float, bool, type(None))


def document(seen: Glance, advice: str | None) -> dict[str, Any]:
    """Everything that the page shows; sizes in bytes, ages in seconds."""
    return {"ready": seen.ready, **_plain(seen), "advice": advice}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return int(value.total_seconds())
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _SHOWN_AS_IS):
        return value
    if is_dataclass(value):
        return {_camel(each.name): _plain(getattr(value, each.name)) for each in fields(value)}
    return [_plain(each) for each in value]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
