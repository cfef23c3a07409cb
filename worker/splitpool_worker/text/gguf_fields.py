"""What does a GGUF file's header say of its tokenizer? Vocabularies read as the arrays they are.

The package's own reader makes some ten numpy objects for each of a hundred thousand strings.
"""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFValueType, ReaderField

from splitpool_worker.checkpoint.gguf_header import HeaderReader

_HEAD = struct.Struct("<IQ")  # of an array: the kind of its items, and how many
_SIZE = struct.Struct("<Q")  # of a string, in bytes


def fields(path: Path) -> dict[str, Any]:
    """Every field whose name has `tokenizer` in it. Raises OSError, ValueError, struct.error."""
    reader = HeaderReader(path)
    return {name: _value(field) for name, field in reader.fields.items() if "tokenizer" in name}


def _value(field: ReaderField) -> Any:
    if field.types != [GGUFValueType.ARRAY]:
        return field.contents()
    held = field.parts[-1].tobytes()
    kind, length = _HEAD.unpack_from(held)
    if kind == GGUFValueType.STRING:
        return _strings(held, length)
    scalar = HeaderReader.gguf_scalar_to_np[GGUFValueType(kind)]
    return np.frombuffer(held, scalar, length, _HEAD.size).tolist()


def _strings(held: bytes, length: int) -> list[str]:
    found = []
    end = _HEAD.size
    for _ in range(length):
        start = end + _SIZE.size
        end = start + _SIZE.unpack_from(held, end)[0]
        found.append(held[start:end].decode())
    return found
