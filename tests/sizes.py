"""Holds the size budget: functions to 60 lines, files to 400, the median function to 9."""

import ast
import statistics
import sys
from pathlib import Path

MAX_FILE = 400
MAX_FUNCTION = 60
MAX_MEDIAN = 9
PACKAGES = ("operator", "router", "worker", "bench", "cli", "lib")


def functions(path: Path) -> list[tuple[str, int]]:
    """Name and length in lines of every function of a file."""
    tree = ast.parse(path.read_text())
    return [
        (f"{path}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def main() -> int:
    """Print every excess; 1 when there is one."""
    files = [file for package in PACKAGES for file in sorted(Path(package).rglob("*.py"))]
    lengths = [item for file in files for item in functions(file)]
    long_files = [(str(f), n) for f in files if (n := len(f.read_text().splitlines())) > MAX_FILE]
    long_functions = [(name, n) for name, n in lengths if n > MAX_FUNCTION]
    for name, lines in long_files + long_functions:
        print(f"{name}: {lines} lines")
    median = statistics.median(n for _, n in lengths)
    print(f"{len(files)} files, {len(lengths)} functions, median {median:g} lines")
    return 1 if long_files or long_functions or median > MAX_MEDIAN else 0


if __name__ == "__main__":
    sys.exit(main())
