"""Which shapes may single values of an InferencePool have: names, sources, quantities, headers?

Every pattern is bounded and understood alike by pydantic and by the API server (RE2);
`REMEDIES` says for each what to write instead.
"""

import re
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from splitpool_quantity import quantity

LARGEST_QUANTITY = 1024**5
QUANTITY_PATTERN = r"^(0|[1-9][0-9]{0,15})(\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti|[eE][0-9]{1,2})?$"
QUANTITY_LENGTH = 20
_WRITTEN = re.compile(QUANTITY_PATTERN, re.ASCII)

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$"
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
MODEL_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
SOURCE_PATTERN = (
    r"^(file:///\S+"
    r"|python://[A-Za-z_][A-Za-z0-9_.]*/[^\s/]\S*"
    r"|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/\S*)?"
    r"|hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9._/-]*)?"
    r"|oci://[a-zA-Z0-9]\S*)$"
)
MIG_PATTERN = r"^[1-7]g\.[1-9][0-9]{0,2}gb(\+me|\+gfx|\+me\.all|-me)?$"
HEADER_PATTERN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
URL_PATTERN = r"^https?://\S+$"
OBJECTIVE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
ENV_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]*$"

REMEDIES = {
    QUANTITY_PATTERN: 'write a number and a unit, such as "80Gi" or "512Mi"',
    NAME_PATTERN: "use 1 to 50 lower-case letters, digits and inner dashes, as in assistant-eu; "
    "the names of its children are made from it",
    NAMESPACE_PATTERN: "use 1 to 63 lower-case letters, digits and inner dashes, as in team-a",
    MODEL_NAME_PATTERN: "start with a letter or digit, then letters, digits and . _ : / @ -, "
    "as in smollm2-135m-instruct",
    SOURCE_PATTERN: "use one of file:///path, python://package/file.gguf, pvc://claim/path, "
    "hf://org/repo[@revision] or oci://image",
    MIG_PATTERN: "use the profile's name as NVIDIA writes it, such as 3g.40gb",
    HEADER_PATTERN: "use the plain name of an HTTP header, such as X-Tenant",
    URL_PATTERN: "use an http:// or https:// address, such as http://prometheus.monitoring:9090",
    OBJECTIVE_PATTERN: "start and end with a letter or digit, with letters, digits and . _ - "
    "between, as in chat-low-latency",
    ENV_PATTERN: "use the name of an environment variable, such as HF_HOME",
}


def _read_positive(value: object) -> int:
    count = _read_quantity(value)
    if count == 0:
        raise PydanticCustomError("quantity", '0 bytes are not enough; write for example "80Gi"')
    return count


def _read_quantity(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str):
        raise PydanticCustomError(
            "quantity",
            "{shown} is no quantity; write it as a string with a unit, {example}",
            {"shown": repr(value)[:40], "example": _example(value)},
        )
    try:
        count = quantity.to_bytes(value)
    except quantity.QuantityError as error:
        raise PydanticCustomError("quantity", "{text}", {"text": str(error)}) from None
    if count >= LARGEST_QUANTITY or len(value) > QUANTITY_LENGTH:
        raise PydanticCustomError(
            "quantity",
            '{text} is not below 1Pi or longer than 20 characters; write for example "80Gi"',
            {"text": repr(value[:40])},
        )
    if _WRITTEN.fullmatch(value) is None:
        raise PydanticCustomError(
            "quantity",
            "{text} is written in a way that pools do not take (at most 3 decimals, units k M G T "
            'Ki Mi Gi Ti or an exponent); write "{same}"',
            {"text": repr(value), "same": quantity.show(count)},
        )
    return count


def _example(value: object) -> str:
    plain = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**5
    return f'such as "{value if plain else 80}Gi"'


_QUANTITY_SCHEMA = {"type": "string", "maxLength": QUANTITY_LENGTH, "pattern": QUANTITY_PATTERN}
Bytes = Annotated[
    int,
    BeforeValidator(_read_positive),
    PlainSerializer(quantity.show, return_type=str),
    WithJsonSchema(_QUANTITY_SCHEMA | {"format": "splitpool-bytes"}),
]
BytesOrZero = Annotated[
    int,
    BeforeValidator(_read_quantity),
    PlainSerializer(quantity.show, return_type=str),
    WithJsonSchema(_QUANTITY_SCHEMA | {"format": "splitpool-bytes-or-0"}),
]
PoolName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=50)]
Namespace = Annotated[str, Field(pattern=NAMESPACE_PATTERN, max_length=63)]
ModelName = Annotated[str, Field(pattern=MODEL_NAME_PATTERN, max_length=128)]
Source = Annotated[str, Field(pattern=SOURCE_PATTERN, max_length=512)]
MigProfile = Annotated[str, Field(pattern=MIG_PATTERN, max_length=24)]
Header = Annotated[str, Field(pattern=HEADER_PATTERN, max_length=64)]
Url = Annotated[str, Field(pattern=URL_PATTERN, max_length=256)]
Objective = Annotated[str, Field(pattern=OBJECTIVE_PATTERN, max_length=63)]
EnvName = Annotated[str, Field(pattern=ENV_PATTERN, max_length=128)]
Text = Annotated[str, Field(max_length=1024)]
ResourceList = Annotated[
    dict[str, int | str],
    Field(max_length=16),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 16,
            "additionalProperties": {"x-kubernetes-int-or-string": True},
        }
    ),
]
Opaque = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class Part(BaseModel):
    """A part of the declaration: immutable, camelCase outside, exact types, no unknown field."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", strict=True, frozen=True, protected_namespaces=()
    )
