"""What is wrong with a pool file: one sentence per problem, with its place in the file."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to change: which field, what is wrong with its value, and what to do instead."""

    path: Path
    text: str
    code: str = "Invalid"
    line: int | None = None
    column: int | None = None

    def show(self, file: str) -> str:
        """`file:line:column: field: sentence`, as compilers and editors write it."""
        place = file if self.line is None else f"{file}:{self.line}:{self.column or 1}"
        return f"{place}: {field(self.path)}: {self.text}" if self.path else f"{place}: {self.text}"


class PoolFileError(Exception):
    """The file declares nothing that can run; carries every problem that was found."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda p: (p.line or 0, p.column or 0)))
        super().__init__("\n".join(problem.show(file) for problem in self.problems))


def field(path: Path) -> str:
    """("spec", "volumes", 0, "name") as spec.volumes[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
