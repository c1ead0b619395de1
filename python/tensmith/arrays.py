"""Arrays of other libraries: whoever gives PyTorch's or JAX's tensors gets such back.

Both ways go through DLPack, without a copy where the memory allows it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from . import _tensmith


class ExchangedArray(numpy.ndarray):
    """A NumPy array of one of ml_dtypes' types, which NumPy itself does not hand to others by DLPack."""

    def __dlpack__(self, **options: Any) -> Any:
        if self.dtype.num < 256:  # one of NumPy's own, of what was computed from such an array
            return super().__dlpack__(**options)
        device = options.get("dl_device")
        if device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the array is in the host's memory; device {device} can't have it without a copy")
        return _tensmith.to_dlpack(numpy.array(self) if options.get("copy") else numpy.asarray(self))


def _importer(value):
    """What makes an array of the value's kind of a NumPy array; None for NumPy's, and where there is nothing."""
    if isinstance(value, (numpy.ndarray, numpy.generic)) or not hasattr(value, "__dlpack__"):
        return None
    space = value.__array_namespace__() if hasattr(value, "__array_namespace__") else None
    if space is None:
        space = sys.modules.get(type(value).__module__.partition(".")[0])
    if not hasattr(space, "from_dlpack"):
        return None

    def imported(array):
        try:
            return space.from_dlpack(array)
        except Exception:  # noqa: BLE001, a type that the library has and its DLPack lacks, as JAX's int4
            if not hasattr(space, "asarray"):
                raise
            return space.asarray(numpy.asarray(array))

    return imported


def importer_of(values: Iterable[Any]) -> Callable[[Any], Any] | None:
    """That of the first value which has one; lists, tuples and dicts are looked into."""
    for value in values:
        if type(value) is numpy.ndarray:
            continue
        if isinstance(value, dict):
            found = importer_of(value.values())
        else:
            found = importer_of(value) if isinstance(value, (list, tuple)) else _importer(value)
        if found:
            return found
    return None


def converted(result: Any, importer: Callable[[Any], Any]) -> Any:
    """The results with every array made one of that kind. Strings stay NumPy's, and None None."""
    if isinstance(result, numpy.ndarray):
        return result if result.dtype.kind == "O" else importer(result)
    if isinstance(result, list):
        return [converted(part, importer) for part in result]
    if isinstance(result, dict):
        return {name: converted(part, importer) for name, part in result.items()}
    if isinstance(result, tuple):  # of a data type: the constructor's number and the fields
        return result[0], converted(result[1], importer)
    return result
