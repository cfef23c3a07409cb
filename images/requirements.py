"""What does each program need? The requirements of one extra of pyproject.toml, as a file each.

`python requirements.py pyproject.toml EXTRA ...` writes EXTRA.txt beside pyproject.toml.
"""

import os
import sys
import tomllib
from pathlib import Path


def main(pyproject: Path, extras: list[str]) -> None:
    """Write a file for each extra: what every program needs, and what this one does."""
    project = tomllib.loads(pyproject.read_text())["project"]
    for extra in extras:
        lines = [*project["dependencies"], *project["optional-dependencies"][extra]]
        file = pyproject.with_name(f"{extra}.txt")
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (0, 0))  # the cache of layers takes a newer file for another one


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
