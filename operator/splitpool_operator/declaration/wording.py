"""How is a refusal of a single value said: field, value, limit and remedy in one sentence?"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from splitpool_operator.declaration.fields import REMEDIES
from splitpool_operator.declaration.problems import Path, Problem

_HINTS = {
    ("spec", "model", "quantization"): "write one of them (GGUF files of any type are read, and "
    "served as dtype and quantization say)",
}
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def sentence(error: ErrorDetails, root: type[BaseModel]) -> Problem:
    """The problem that a pydantic error of a model stands for."""
    path: Path = tuple(part for part in error["loc"] if part != "[key]")
    write = _SENTENCES.get(error["type"], _other)
    return Problem(path=path, text=write(error, path, root), code=_code(error["type"]))


def known_fields(root: type[BaseModel], path: Path) -> list[str]:
    """Names that may stand beside the last part of the path."""
    model: type[BaseModel] | None = root
    for part in path[:-1]:
        if model is None:
            return []
        model = _child(model, part) if isinstance(part, str) else model
    return [] if model is None else [info.alias or name for name, info in _fields(model).items()]


def _child(model: type[BaseModel], alias: str) -> type[BaseModel] | None:
    for name, info in _fields(model).items():
        if alias == (info.alias or name):
            return _model_in(info.annotation)
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _fields(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_fields


def _code(kind: str) -> str:
    return {"missing": "Missing", "extra_forbidden": "UnknownField"}.get(kind, "Invalid")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _missing(_error: ErrorDetails, path: Path, _root: type[BaseModel]) -> str:
    return f"is required and missing; add {path[-1]}"


def _unknown(_error: ErrorDetails, path: Path, root: type[BaseModel]) -> str:
    known = known_fields(root, path)
    close = suggestion(str(path[-1]), known)
    if close:
        return f"is not a field; did you mean {close}?"
    return f"is not a field; known here: {', '.join(sorted(known))}"


def suggestion(written: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to what was written, if any is close."""
    by_lower = {name.lower(): name for name in known}
    simple = written.lower().replace("_", "").replace("-", "")
    if simple in by_lower:
        return by_lower[simple]
    close = difflib.get_close_matches(simple, by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def _choice(error: ErrorDetails, path: Path, _root: type[BaseModel]) -> str:
    expected = error.get("ctx", {}).get("expected", "")
    known = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    value = error["input"]
    said = f"{_shown(value)} is not one of {', '.join(known)}"
    if path in _HINTS:
        return f"{said}; {_HINTS[path]}"
    if isinstance(value, bool) and "Off" in known:
        return f'{said}; put "Off" in quotes, YAML takes the bare word for {_shown(value)}'
    close = suggestion(value, known) if isinstance(value, str) else None
    return f"{said}; did you mean {close}?" if close else f"{said}; write one of them"


def _kind(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    value, wanted = error["input"], _KINDS[error["type"]]
    said = f"{_shown(value)} is not {wanted}"
    if isinstance(value, str) and value.lstrip("-").isdecimal():
        return f"{said}; write it without quotes: {value}"
    if wanted == "a string" and value is not None and not isinstance(value, (dict, list)):
        return f'{said}; put it in quotes: "{_shown(value)}"'
    return f"{said}; write {wanted}"


def _low(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    limit = error["ctx"]["ge"]
    return f"{_shown(error['input'])} is below the least allowed, {limit}; write {limit} or more"


def _high(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    limit = error["ctx"]["le"]
    return f"{_shown(error['input'])} is above the most allowed, {limit}; write {limit} or less"


def _pattern(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    return f"{_shown(error['input'])} does not fit; {REMEDIES[error['ctx']['pattern']]}"


def _long(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    limit, value = error["ctx"]["max_length"], error["input"]
    unit = "characters" if isinstance(value, str) else "entries"
    return f"has {len(value)} {unit}, more than the {limit} allowed; shorten it"


def _short(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    return f"{_shown(error['input'])} is too short; write {error['ctx']['min_length']} or more"


def _other(error: ErrorDetails, _path: Path, _root: type[BaseModel]) -> str:
    return error["msg"]


_Sentence = Callable[[ErrorDetails, Path, type[BaseModel]], str]
_SENTENCES: dict[str, _Sentence] = dict.fromkeys(_KINDS, _kind) | {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "literal_error": _choice,
    "greater_than_equal": _low,
    "less_than_equal": _high,
    "string_pattern_mismatch": _pattern,
    "string_too_long": _long,
    "too_long": _long,
    "string_too_short": _short,
}
