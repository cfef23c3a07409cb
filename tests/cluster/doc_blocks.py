"""Which commands are in the pages? Their blocks of shell, and whether one needs a real node."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from unit.golden import ROOT

DOCS = ROOT / "docs"
_FENCE = re.compile(r"^```(\w*)$")
_ON_A_NODE = re.compile(r"^<!-- run on a real node: .+ -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some lines of shell; `on_a_node` where they need a router or a worker that runs."""

    page: str
    line: int
    text: str
    on_a_node: bool

    @property
    def name(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page of the docs that are marked as sh, in order."""
    lines = iter(enumerate((DOCS / f"{page}.md").read_text().splitlines(), 1))
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
                yield Block(
                    page=page,
                    line=number,
                    text="\n".join(body) + "\n",
                    on_a_node=bool(_ON_A_NODE.match(before)),
                )
        before = line


def guide() -> Iterator[Block]:
    """The blocks of the guide in its order, and of the pages that speak of its pool."""
    pages = (
        *(f"guide/{name}" for name in ("gpu-clusters", "first-pool", "scaling", "security")),
        *("guide/troubleshooting", "monitoring", "scaling", "fences"),
        *(f"runbooks/{file.stem}" for file in sorted((DOCS / "runbooks").iterdir())),
        # It ends with the removal of everything.
        "guide/upgrades",
    )
    for page in pages:
        yield from blocks(page)
