"""What records are handed out as: arrays of NumPy, or memoryviews."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from .._checks import one_of
from ..errors import ArgumentError, MissingError
from ._index import Fixed, Index

FRAMEWORKS = ("numpy", "bytes")


@functools.cache
def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise MissingError('numpy is not available: pip install numpy, or take framework="bytes"') from None
    return numpy


class Shaper:
    """Makes records of the memory that they were read to. No bytes are copied, but where elements lie at odd addresses, and
    where records of a batch do not lie one behind the other."""

    def __init__(self, index: Index, framework: str) -> None:
        self._index, self._framework = index, one_of("framework", framework, FRAMEWORKS)
        if framework == "numpy":
            self._check()

    def _check(self) -> None:
        """Whether records of fixed size have this type and shape."""
        index, item = self._index, self._dtype().itemsize
        if self._dtype().hasobject:
            raise ArgumentError(f"dtype {index.dtype}: must be of plain bytes")
        if isinstance(index, Fixed):
            if index.record_bytes % item:
                raise ArgumentError(f"dtype {index.dtype}: its {item} bytes must divide those of a record, {index.record_bytes}")
            sizes = index.shape or (-1,)
            if -1 not in sizes and math.prod(sizes) * item != index.record_bytes:
                raise ArgumentError(f"shape {sizes}: of {index.dtype} must have the {index.record_bytes} bytes of a record")

    def _dtype(self) -> Any:
        try:
            return _numpy().dtype(self._index.dtype)
        except TypeError:
            raise ArgumentError(f"dtype {self._index.dtype}: NumPy knows no such type") from None

    def empty(self) -> Any:
        """An array of no records."""
        return _numpy().empty(0, self._dtype())

    def record(self, memory: Any, place: int, nbytes: int) -> Any:
        """One record."""
        if self._framework == "bytes":
            return memoryview(memory).cast("B")[place : place + nbytes]
        return self._typed(_numpy().frombuffer(memory, "u1", nbytes, place) if nbytes else _numpy().empty(0, "u1"), ())

    def batch(self, memory: Any, places: Sequence[int], lengths: Sequence[int]) -> Any:
        """Records of a batch: of fixed size as one array, else a list."""
        if self._framework == "bytes" or not isinstance(self._index, Fixed):
            return [self.record(memory, *each) for each in zip(places, lengths)]
        count, nbytes = len(places), self._index.record_bytes
        if all(place == places[0] + turn * nbytes for turn, place in enumerate(places)):
            flat = _numpy().frombuffer(memory, "u1", count * nbytes, places[0])
        else:
            rows = [_numpy().frombuffer(memory, "u1", nbytes, place) for place in places]
            flat = _numpy().concatenate(rows)
        return self._typed(flat, (count,))

    def _typed(self, flat: Any, ahead: tuple[int, ...]) -> Any:
        dtype = self._dtype()
        if flat.nbytes % dtype.itemsize:
            raise ArgumentError(f"dtype {self._index.dtype}: its {dtype.itemsize} bytes must divide those of a record, {flat.nbytes}")
        if flat.ctypes.data % dtype.alignment:
            flat = flat.copy()
        shape = self._index.shape or (-1,)
        if -1 in shape and flat.nbytes == 0:
            shape = tuple(0 if size == -1 else size for size in shape)
        return flat.view(dtype).reshape(*ahead, *shape)
