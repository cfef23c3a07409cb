"""A GGUF reader that steps over a tokenizer's arrays: reading the model's header takes no time.

The package's own reader makes some ten numpy objects for each of a hundred thousand strings.
"""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, GGUFValueType

# Longer arrays belong to tokenizers; the model's own fields are numbers, strings and short lists.
LONGEST_ARRAY = 256

Parts = tuple[int, list[npt.NDArray[Any]], list[int], list[GGUFValueType]]


class HeaderReader(GGUFReader):  # type: ignore[misc]
    """Fields and tensors as in GGUFReader; a long array's field holds bytes and no values."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Parts:
        if raw_type == GGUFValueType.ARRAY and self.byte_order == "I":
            kind, length = struct.unpack_from("<IQ", self.data, orig_offs)
            size = self._array_bytes(orig_offs + 12, kind, length)
            if length > LONGEST_ARRAY and size is not None:
                whole = np.asarray(self.data[orig_offs : orig_offs + 12 + size])
                return len(whole), [whole], [], [GGUFValueType.ARRAY]
        parts: Parts = super()._get_field_parts(orig_offs, raw_type)
        return parts

    def _array_bytes(self, start: int, kind: int, length: int) -> int | None:
        """How many bytes the items take, or None where they are neither strings nor scalars."""
        if kind == GGUFValueType.STRING:
            return self._strings_bytes(start, length)
        scalar = self.gguf_scalar_to_np.get(GGUFValueType(kind))
        if scalar is None:
            return None
        return _within(length * np.dtype(scalar).itemsize, len(self.data) - start)

    def _strings_bytes(self, start: int, length: int) -> int:
        """Each string is its length in 8 bytes and its text. Raises struct.error past the end."""
        data = memoryview(self.data)
        size_at = struct.Struct("<Q").unpack_from
        end = start
        for _ in range(length):
            end += 8 + size_at(data, end)[0]
        return _within(end - start, len(data) - start)


def _within(size: int, room: int) -> int:
    if size > room:
        raise ValueError(f"an array of {size} bytes does not fit the file")
    return size
