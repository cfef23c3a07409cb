"""What does a YAML file say, and at which line and column does each of its values stand?

Duplicate keys are problems, not overwrites; anchors and merge keys work, within bounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from splitpool_operator.declaration.problems import Path, PoolFileError, Problem

_TAGS = "tag:yaml.org,2002:"
_MERGE = f"{_TAGS}merge"
# Of a value that stands for nothing; what else is said of it says no more.
BROKEN_VALUE = "BrokenValue"
LARGEST_FILE = 1024**2
_MOST_VALUES = 20_000
_DEEPEST = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int


@dataclass(slots=True, kw_only=True)
class Document:
    """One YAML document: its plain value and the place of each part."""

    value: Any = None
    marks: dict[Path, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> Mark | None:
        """Where a part stands; for a missing one, where its nearest parent stands."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.marks:
                return self.marks[path[:end]]
        return None


def load(file: str, content: bytes) -> list[Document]:
    """Every document of the file that is not empty. Raises PoolFileError for what is no YAML."""
    if len(content) > LARGEST_FILE:
        text = f"has more than the {LARGEST_FILE} bytes allowed; split the file"
        raise PoolFileError(file, [Problem(path=(), text=text)])
    yaml = YAML(typ="safe", pure=True)
    try:
        return [_Reader(yaml).document(node) for node in _nodes(yaml, _decoded(file, content))]
    except MarkedYAMLError as error:
        raise PoolFileError(file, [_broken(error)]) from None
    except ReaderError as error:
        text = f"is not YAML: remove the character {error.character!r} at {error.position}"
        raise PoolFileError(file, [Problem(path=(), text=text, code="BrokenYAML")]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        said = f"more than {_DEEPEST} levels" if isinstance(error, RecursionError) else error
        text = f"is not YAML: {said}; check its quotes and indentation"
        raise PoolFileError(file, [Problem(path=(), text=text, code="BrokenYAML")]) from None


def _decoded(file: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        text = f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise PoolFileError(file, [Problem(path=(), text=text, line=line)]) from None


def _nodes(yaml: YAML, text: str) -> Iterator[Node]:
    constructor, _ = yaml.get_constructor_parser(text)
    while constructor.composer.check_node():
        node = constructor.composer.get_node()
        if not (isinstance(node, ScalarNode) and node.tag == f"{_TAGS}null"):
            yield node


def _broken(error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    said = " ".join(filter(None, (error.context, error.problem)))
    remedy = "check quotes, brackets, colons and indentation there"
    if mark is None:
        return Problem(path=(), text=f"is not YAML: {said}; {remedy}", code="BrokenYAML")
    text = f"is not YAML at line {mark.line + 1}: {said}; {remedy}"
    return Problem(
        path=(), text=text, code="BrokenYAML", line=mark.line + 1, column=mark.column + 1
    )


def _half_character(text: str) -> str | None:
    """The first surrogate, which JSON and YAML can write and no encoding can."""
    return next((f"\\u{ord(c):04x}" for c in text if 0xD800 <= ord(c) <= 0xDFFF), None)


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."


class _Reader:
    """Turns one node tree into a Document."""

    def __init__(self, yaml: YAML) -> None:
        self._yaml = yaml
        self._values = 0
        self._document = Document()

    def document(self, node: Node) -> Document:
        self._document.value = self._read(node, ())
        self._mark(node, ())
        return self._document

    def _read(self, node: Node, path: Path) -> Any:
        self._values += 1
        if self._values > _MOST_VALUES or len(path) > _DEEPEST:
            raise ValueError(
                f"more than {_MOST_VALUES} values or {_DEEPEST} levels (aliases count)"
            )
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self._item(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: Node, path: Path) -> Any:
        try:
            value = self._yaml.constructor.construct_object(node, deep=True)
        except (YAMLError, ValueError, KeyError):
            # A tag that does not exist, or one that the text does not fit.
            tag = str(node.tag).replace(_TAGS, "!!")
            text = f"{_short(node.value)} cannot be read as {tag}; correct it and leave out any tag"
            self._problem(node, path, text, BROKEN_VALUE)
            return ""
        if isinstance(value, str) and (half := _half_character(value)):
            text = f"has the half character {half}, which is no text; remove it"
            self._problem(node, path, text, BROKEN_VALUE)
            return ""
        return value

    def _item(self, node: Node, path: Path) -> Any:
        self._mark(node, path)
        return self._read(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merged(value_node, path) | merged
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in own:
                self._duplicate(key_node, here)
                continue
            self._mark(key_node, here)
            own[key] = self._read(value_node, here)
        return merged | own

    def _key(self, node: Node, path: Path) -> str | None:
        """The name of a field; None, and a problem, where it can be none."""
        if not isinstance(node, ScalarNode):
            kind = "a list" if isinstance(node, SequenceNode) else "a mapping"
            self._problem(node, path, f"has {kind} for a key; write a name before the colon")
        elif half := _half_character(str(node.value)):
            text = f"has a key with the half character {half}, which is no text; remove it"
            self._problem(node, path, text)
        else:
            return str(node.value)
        return None

    def _problem(self, node: Node, path: Path, text: str, code: str = "BrokenKey") -> None:
        mark = node.start_mark
        self._document.problems.append(
            Problem(path=path, text=text, code=code, line=mark.line + 1, column=mark.column + 1)
        )

    def _merged(self, node: Node, path: Path) -> dict[str, Any]:
        if isinstance(node, SequenceNode):
            result: dict[str, Any] = {}
            for child in node.value:
                result = self._merged(child, path) | result
            return result
        value = self._read(node, path)
        return value if isinstance(value, dict) else {}

    def _mark(self, node: Node, path: Path) -> None:
        mark = node.start_mark
        self._document.marks[path] = Mark(line=mark.line + 1, column=mark.column + 1)

    def _duplicate(self, node: Node, path: Path) -> None:
        first = self._document.marks[path]
        text = f"is a duplicate key, first written in line {first.line}; keep one of them"
        self._problem(node, path, text, "DuplicateKey")
