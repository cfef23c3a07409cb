"""ARCHITECTURE.md lists every module with the answer that its docstring gives."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
MARK = "<!-- modules:"
PACKAGES = {
    "operator/splitpool_operator": "Operator",
    "router/splitpool_router": "Router",
    "worker/splitpool_worker": "Worker",
    "lib/splitpool_kube": "Shared, reaching a cluster",
    "lib/splitpool_quantity": "Shared, bytes in words",
    "lib/splitpool_serving": "Shared, serving HTTP",
    "cli/splitpool": "Command",
    "bench/splitpool_bench": "Bench",
    "bench/peers": "Bench, beside other servers",
}


def first_paragraph(path: Path) -> str:
    """What the module says of itself, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def folders(package: Path) -> Iterator[Path]:
    yield package
    yield from sorted(p.parent for p in package.rglob("__init__.py") if p.parent != package)


def modules() -> Iterator[str]:
    for name, title in PACKAGES.items():
        yield f"## {title}: {name}/"
        for folder in folders(ROOT / name):
            below = folder.relative_to(ROOT / name)
            yield (
                f"\n**{below}/** {first_paragraph(folder / '__init__.py')}\n" if below.parts else ""
            )
            for path in sorted(folder.glob("*.py")):
                if path.name != "__init__.py":
                    yield f"- `{path.stem}` {first_paragraph(path)}"
        yield ""


def test_every_module_stands_in_the_list_with_its_own_words() -> None:
    text = PAGE.read_text()
    head = text[: text.index("\n", text.index(MARK)) + 1]
    expected = head + "\n" + "\n".join(modules())
    if os.environ.get("SPLITPOOL_WRITE_GOLDEN"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected, "run: make golden"


def test_every_module_says_what_it_answers() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for path in (ROOT / name).rglob("*.py")
        if not first_paragraph(path)
    ]
    assert silent == []


def test_the_folder_called_operator_never_becomes_a_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
