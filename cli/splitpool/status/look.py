"""How may a page look where it goes: how wide, in colours, with signs beyond ASCII?"""

import os
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_STYLES = {
    "bold": "1",
    "dim": "2",
    "good": "32",
    "busy": "33",
    "bad": "31",
    "note": "36",
    "weights": "34",
    "used": "36",
    "free": "2",
}
_SIGNS = {
    "good": "●",
    "busy": "◐",
    "bad": "✖",
    "warning": "▲",
    "arrow": "→",
    "dot": "·",
    "weights": "█",
    "used": "▓",
    "free": "░",
    "cut": "…",
}
_ASCII = {
    "good": "*",
    "busy": "~",
    "bad": "x",
    "warning": "!",
    "arrow": "->",
    "dot": "-",
    "weights": "#",
    "used": "=",
    "free": ".",
    "cut": ">",
}
# Of files and pipes: sentences are readable, tables are whole.
_UNKNOWN_WIDTH = 100
_NARROWEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the place of output can do."""

    width: int = _UNKNOWN_WIDTH
    # Nothing is cut: it goes into a file or a pipe.
    whole: bool = False
    colours: bool = False
    signs: Mapping[str, str]

    def paint(self, style: str, text: str) -> str:
        """The text in a style; as it is where there are no colours."""
        if not self.colours or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def wrapped(self, text: str, indent: int) -> list[str]:
        """The text in lines that fit below an indent."""
        room = max(self.width - indent, _NARROWEST // 2)
        margin = " " * indent
        # Names with hyphens, as in commands, stay in one piece.
        lines = textwrap.wrap(text, room, break_on_hyphens=False)
        return [margin + line for line in lines] or [margin]

    def cut(self, text: str, room: int) -> str:
        """As much of the text as there is room for."""
        if self.whole or len(text) <= room:
            return text
        return text[: max(room - 1, 0)] + self.signs["cut"]


def plain(width: int = _UNKNOWN_WIDTH, *, ascii_only: bool = False) -> Look:
    """Without colours."""
    return Look(width=width, signs=_ASCII if ascii_only else _SIGNS)


def of(stream: TextIO) -> Look:
    """What a stream can do; NO_COLOR and TERM=dumb are respected, and so is COLUMNS."""
    tty = stream.isatty()
    known = tty or "COLUMNS" in os.environ
    width = shutil.get_terminal_size().columns if known else _UNKNOWN_WIDTH
    dumb = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    encoding = (stream.encoding or "").lower().replace("-", "")
    return Look(
        width=max(width, _NARROWEST),
        whole=not known,
        colours=tty and not dumb,
        signs=_SIGNS if encoding.startswith("utf") else _ASCII,
    )
