"""A quick way to read a GGUF file's header."""

from typing import Any

import numpy as np
from gguf import GGUFReader


class GgufReader(GGUFReader):  # type: ignore[misc]
    """The library's reader on a plain view of the mapped file.

    Slicing a `numpy.memmap` builds a memmap each time; a vocabulary takes some 150,000 slices, and
    three times as long.
    """

    _view: Any

    @property
    def data(self) -> Any:
        return self._view

    @data.setter
    def data(self, mapped: Any) -> None:
        self._view = np.asarray(mapped)
