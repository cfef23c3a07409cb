"""Which commands are in a page? Its blocks of shell, with the reason why a test cannot run one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)$")
_REASON = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some lines of shell; `reason` says why no test runs them."""

    page: str
    line: int
    text: str
    reason: str | None

    @property
    def name(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def blocks(file: Path) -> Iterator[Block]:
    """The blocks marked as sh, in order."""
    lines = iter(enumerate(file.read_text().splitlines(), 1))
    before = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence:
            body = []
            for _, inside in lines:
                if inside == "```":
                    break
                body.append(inside)
            if fence[1] == "sh":
                reason = _REASON.match(before)
                yield Block(
                    page=file.name,
                    line=number,
                    text="\n".join(body) + "\n",
                    reason=reason[1] if reason else None,
                )
        before = line
