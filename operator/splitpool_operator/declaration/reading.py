"""Which pools does a file declare, and everything that is wrong with it at once?

Files are read strictly: an unknown field, a duplicate key or a value of another type is a
problem with its line. Rules between fields also run over the healthy rest of a file.
"""

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any, BinaryIO

from pydantic import ValidationError

from splitpool_operator.declaration import marked_yaml
from splitpool_operator.declaration.marked_yaml import BROKEN_VALUE, Document
from splitpool_operator.declaration.pool import API_VERSION, KIND, InferencePool
from splitpool_operator.declaration.problems import Path, PoolFileError, Problem
from splitpool_operator.declaration.rules import RULES
from splitpool_operator.declaration.wording import sentence

_STAND_INS: dict[Path, Any] = {
    ("apiVersion",): API_VERSION,
    ("kind",): KIND,
    ("metadata",): {"name": "pool"},
    ("metadata", "name"): "pool",
    ("spec", "model"): {"name": "model", "source": "file:///model"},
    ("spec", "model", "name"): "model",
    ("spec", "model", "source"): "file:///model",
    ("spec", "accelerator"): {"memory": "1Ti"},
    ("spec", "accelerator", "memory"): "1Ti",
    ("spec", "pools"): {"interactive": {"vram": "1Mi"}, "batch": {"vram": "1Mi"}},
    ("spec", "pools", "interactive"): {"vram": "1Mi"},
    ("spec", "pools", "interactive", "vram"): "1Mi",
    ("spec", "pools", "batch"): {"vram": "1Mi"},
    ("spec", "pools", "batch", "vram"): "1Mi",
}


def read_file(file: FilePath) -> list[InferencePool]:
    """The pools of a file. Raises PoolFileError with every problem, OSError if it is unreadable."""
    with file.open("rb") as stream:
        return read(str(file), content(stream))


def content(stream: BinaryIO) -> bytes:
    """What a stream holds, and no more of it than shows that it is too much."""
    return stream.read(marked_yaml.LARGEST_FILE + 1)


def read(file: str, content: bytes) -> list[InferencePool]:
    """The pools that a file's content declares. Raises PoolFileError with every problem."""
    documents = marked_yaml.load(file, content)
    if not documents:
        text = f"declares nothing; write a document of kind {KIND}"
        raise PoolFileError(file, [Problem(path=(), text=text)])
    found: list[tuple[Document, InferencePool]] = []
    problems: list[Problem] = []
    for document in documents:
        pool, wrong = _pool(document)
        told = {each.path for each in document.problems if each.code == BROKEN_VALUE}
        problems += [*document.problems, *(each for each in wrong if each.path not in told)]
        if pool is not None:
            found.append((document, pool))
    problems += _conflicts(found)
    if problems:
        raise PoolFileError(file, problems)
    return [pool for _, pool in found]


def _pool(document: Document) -> tuple[InferencePool | None, list[Problem]]:
    value = document.value
    if not isinstance(value, dict):
        text = f"a document is a mapping with apiVersion, kind, metadata and spec, of kind {KIND}"
        return None, [_placed(Problem(path=(), text=text), document)]
    pool, problems = check(value)
    return pool, [_placed(problem, document) for problem in problems]


def check(value: dict[str, Any]) -> tuple[InferencePool | None, list[Problem]]:
    """The pool and what is wrong with it; None where nothing of it can be understood."""
    try:
        pool = InferencePool.model_validate(value)
        problems: list[Problem] = []
    except ValidationError as error:
        problems = [sentence(detail, InferencePool) for detail in error.errors()]
        healthy = _healthy(value, [problem.path for problem in problems])
        if healthy is None:
            return None, problems
        pool = healthy
    broken = {problem.path for problem in problems if problem.code != "UnknownField"}
    return pool, problems + list(rule_problems(pool, broken))


def rule_problems(pool: InferencePool, broken: Iterable[Path] = ()) -> Iterator[Problem]:
    """What the rules between fields object to; a rule that reads a broken field is skipped."""
    broken = tuple(broken)
    for rule in RULES:
        reads = [("spec", *name.split(".")) for name in rule.reads]
        if not any(_overlap(path, read) for path in broken for read in reads):
            yield from rule.check(pool.spec)


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _healthy(value: dict[str, Any], broken: Iterable[Path]) -> InferencePool | None:
    """The pool without its broken values, so that the rules can speak about the rest."""
    rest = copy.deepcopy(value)
    for path in sorted(broken, key=len, reverse=True):
        _replace(rest, path)
    try:
        return InferencePool.model_validate(rest)
    except ValidationError:
        return None


def _replace(value: Any, path: Path) -> None:
    for part in path[:-1]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(value, dict):
        value.pop(path[-1], None)
        if path in _STAND_INS:
            value[path[-1]] = copy.deepcopy(_STAND_INS[path])


def _placed(problem: Problem, document: Document) -> Problem:
    mark = document.place(problem.path)
    if mark is None:
        return problem
    return Problem(
        path=problem.path,
        text=problem.text,
        code=problem.code,
        line=mark.line,
        column=mark.column,
    )


def _conflicts(found: list[tuple[Document, InferencePool]]) -> Iterator[Problem]:
    names: dict[tuple[str, str], str] = {}
    models: dict[str, str] = {}
    for document, pool in found:
        key, model = pool.key, pool.spec.model.name
        shown = f"{key[0]}/{key[1]}"
        if key in names:
            text = f"{key[1]} is the name of an earlier pool of this file; rename one of them"
            yield _placed(
                Problem(path=("metadata", "name"), text=text, code="NameConflict"), document
            )
        elif model in models:
            text = (
                f"{model} is already served by the earlier pool {models[model]}, which keeps it; "
                "give this pool another model name"
            )
            path: Path = ("spec", "model", "name")
            yield _placed(Problem(path=path, text=text, code="ModelNameConflict"), document)
        names[key] = shown
        models.setdefault(model, shown)
