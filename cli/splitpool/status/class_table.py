"""How are the classes of a pool shown: workers, quota and what fills it, time to first token?"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from splitpool.status.ages import short
from splitpool.status.glance import ClassGlance
from splitpool.status.look import Look
from splitpool_operator.reporting.enforcement import Vram

_BAR = 20
_SHORTEST_BAR = 8
_GAP = 2
_INDENT = 2
_UNITS = (("Ti", 1024**4), ("Gi", 1024**3), ("Mi", 1024**2))
# Where there is little room, the first of these go first.
_DISPENSABLE = ("TARGET", "UPDATED", "KV", "WEIGHTS", "USED", "QUOTA")
_LEFT_COLUMNS = frozenset({"CLASS", "VRAM"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """Text as it is measured, and as it is painted."""

    text: str
    painted: str = ""


def class_table(classes: Sequence[ClassGlance], look: Look) -> list[str]:
    """A row for each class; the bar takes the room that is left, or goes."""
    columns = _columns(classes, look)
    bar = _bar_room(columns, look)
    reported = [each for each in classes if each.vram is not None]
    if reported and bar >= _SHORTEST_BAR:
        cells = [_bar(each.vram, bar, look) for each in classes]
        columns = _with_bar(columns, cells)
    lines = _aligned(columns, look)
    if reported and bar >= _SHORTEST_BAR:
        lines.append(_legend(look))
    if "TTFT-P99" in columns:
        lines += _window(classes)
    for each in classes:
        if each.scaled:
            text = f"{each.name} was scaled {short(each.scaled_age)} ago: {each.scaled}"
            lines += look.wrapped(text, _INDENT)
    return lines


def _window(classes: Sequence[ClassGlance]) -> list[str]:
    """Over which time was it measured?"""
    seconds = max((each.ttft_window or 0 for each in classes), default=0)
    window = short(datetime.timedelta(seconds=seconds))
    return [f"{' ' * _INDENT}TTFT-P99 of the last {window}"] if seconds else []


_Columns = dict[str, list[_Cell]]


def _columns(classes: Sequence[ClassGlance], look: Look) -> _Columns:
    """What is known of no class has no column."""
    columns = {
        "CLASS": [_Cell(text=each.name) for each in classes],
        "READY": [_ready(each, look) for each in classes],
        "UPDATED": [_Cell(text=str(each.updated)) for each in classes],
        "QUOTA": [_Cell(text=each.quota) for each in classes],
        "USED": [_size(each.vram, "used") for each in classes],
        "WEIGHTS": [_size(each.vram, "weights") for each in classes],
        "KV": [_size(each.vram, "kv") for each in classes],
        "TTFT-P99": [_ttft(each, look) for each in classes],
        "TARGET": [_milliseconds(each.target_ms) for each in classes],
    }
    if all(each.ttft_ms is None for each in classes):
        del columns["TTFT-P99"]
    if all(each.vram is None for each in classes):
        for name in ("USED", "WEIGHTS", "KV"):
            del columns[name]
    for name in _DISPENSABLE:
        if _INDENT + _width(columns) > look.width:
            columns.pop(name, None)
    return columns


def _ready(each: ClassGlance, look: Look) -> _Cell:
    text = f"{each.ready}/{each.desired}"
    style = "good" if each.ready >= each.desired else "bad" if not each.ready else "busy"
    return _Cell(text=text, painted=look.paint(style, text))


def _size(vram: Vram | None, part: str) -> _Cell:
    return _Cell(text="-" if vram is None else _rounded(getattr(vram, part)))


def _rounded(count: int) -> str:
    """Three digits are enough beside a bar."""
    unit, size = next((each for each in _UNITS if count >= each[1]), ("", 1))
    return f"{count / size:.3g}{unit}"


def _ttft(each: ClassGlance, look: Look) -> _Cell:
    cell = _milliseconds(each.ttft_ms)
    style = "bad" if each.too_slow else "good" if each.target_ms and each.ttft_ms else None
    return _Cell(text=cell.text, painted=look.paint(style, cell.text)) if style else cell


def _milliseconds(value: int | None) -> _Cell:
    return _Cell(text="-" if value is None else f"{value} ms")


def _width(columns: _Columns) -> int:
    return sum(_widest(name, cells) for name, cells in columns.items()) + _GAP * (len(columns) - 1)


def _widest(name: str, cells: Sequence[_Cell]) -> int:
    return max(len(name), *(len(cell.text) for cell in cells))


def _bar_room(columns: _Columns, look: Look) -> int:
    return min(_BAR, look.width - _INDENT - _width(columns) - _GAP)


def _with_bar(columns: _Columns, cells: list[_Cell]) -> _Columns:
    """Beside the quota that it divides."""
    result: _Columns = {}
    for name, column in columns.items():
        if name == "QUOTA":
            result["VRAM"] = cells
        result[name] = column
    return result


def _bar(vram: Vram | None, room: int, look: Look) -> _Cell:
    """A quota as a bar: weights, what else is in use, what is free."""
    if vram is None or vram.quota <= 0:
        return _Cell(text="-")
    weights = _share(vram.weights, vram.quota, room)
    used = max(_share(vram.used, vram.quota, room) - weights, 0)
    parts = {"weights": weights, "used": used, "free": max(room - weights - used, 0)}
    text = "".join(look.signs[part] * size for part, size in parts.items())
    painted = "".join(look.paint(part, look.signs[part] * size) for part, size in parts.items())
    return _Cell(text=text, painted=painted)


def _share(part: int, whole: int, room: int) -> int:
    """Cells of a part: something is at least one, and nothing is none."""
    return 0 if part <= 0 else min(room, max(1, round(part * room / whole)))


def _legend(look: Look) -> str:
    words = {"weights": "weights", "used": "other use (workspace, KV)", "free": "free"}
    shown = "  ".join(f"{look.paint(key, look.signs[key])} {text}" for key, text in words.items())
    return " " * _INDENT + shown + look.paint("dim", "  (of the class's fullest worker)")


def _aligned(columns: _Columns, look: Look) -> list[str]:
    widths = {name: _widest(name, cells) for name, cells in columns.items()}
    head = (" " * _GAP).join(_padded(_Cell(text=name), name, widths[name]) for name in columns)
    lines = [" " * _INDENT + look.paint("bold", head.rstrip())]
    for row in zip(*columns.values(), strict=True):
        cells = zip(columns, row, strict=True)
        text = (" " * _GAP).join(_padded(cell, name, widths[name]) for name, cell in cells)
        lines.append(" " * _INDENT + text.rstrip())
    return lines


def _padded(cell: _Cell, column: str, width: int) -> str:
    room = " " * (width - len(cell.text))
    shown = cell.painted or cell.text
    return shown + room if column in _LEFT_COLUMNS else room + shown
