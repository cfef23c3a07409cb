"""What text does a model's chat template make of messages?

A template is code of whoever made the model, so it runs in jinja2's sandbox. What it may use are
the tags, filters and names of `apply_chat_template` in transformers, whose own module takes
seconds to import.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


def render(template: str, messages: Sequence[Mapping[str, str]], special: Mapping[str, str]) -> str:
    """The prompt, with the beginning of the answer. Raises TemplateError, TypeError, ValueError.

    special: the names and texts of tokens, such as `bos_token`.
    """
    return _compiled(template).render(
        messages=[dict(message) for message in messages],
        tools=None,
        documents=None,
        add_generation_prompt=True,
        **special,
    )


@lru_cache(maxsize=4)
def _compiled(template: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(
        raise_exception=_refuse,
        strftime_now=_now,
        dict=_dict,
        namespace=_PlainNamespace,
    )
    return environment.from_string(template)


class _Generation(Extension):
    """`{% generation %}` marks what a model wrote, for training; here it is only its content."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _PlainNamespace(Namespace):
    """A namespace without names that begin with an underscore: those reach into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that `self` may be a name in it
        self, *given = args
        values = dict(*given, **kwargs)
        for name in values:
            _check(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        super().__setitem__(name, value)


def _check(name: str) -> None:
    if name.startswith("_"):
        raise SecurityError(f"a namespace of a chat template may not hold {name!r}: rename it")


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """A function and not the type, whose attributes reach into Python."""
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """jinja2's own escapes HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
