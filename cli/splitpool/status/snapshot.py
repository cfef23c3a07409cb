"""What was read of a pool at one moment: API objects as they came, and what could not be read."""

import datetime
from dataclasses import dataclass
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A pool with its workers' pods and the events about it."""

    pool: Object
    now: datetime.datetime
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    # Why a part of it is missing, as sentences.
    gaps: tuple[str, ...] = ()
