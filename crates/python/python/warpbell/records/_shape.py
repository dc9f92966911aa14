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
def numpy() -> Any:
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
        """Whether there is such a type, and records of fixed size have it, and the shape."""
        dtype = self._dtype()
        if dtype.hasobject:
            raise ArgumentError(f"dtype {self._index.dtype}: must be of plain bytes")
        if dtype.itemsize == 0:
            raise ArgumentError(f"dtype {self._index.dtype!r}: has elements of 0 bytes")
        if isinstance(self._index, Fixed):
            self.check("a record", self._index.record_bytes)

    def check(self, what: str, nbytes: int) -> None:
        """Whether a record of so many bytes can have this type and shape."""
        name, shape, item = self._index.dtype, self._index.shape, self._dtype().itemsize
        if nbytes % item:
            raise ArgumentError(f"dtype {name}: its {item} bytes must divide those of {what}, {nbytes}")
        if shape is None:
            return
        known = item * math.prod(size for size in shape if size != -1)
        fits = nbytes % known == 0 if known and -1 in shape else nbytes == known
        if not fits:
            raise ArgumentError(f"shape {shape}: of {name} must have the {nbytes} bytes of {what}")

    def _dtype(self) -> Any:
        try:
            return numpy().dtype(self._index.dtype)
        except (TypeError, ValueError, SyntaxError):
            raise ArgumentError(f"dtype {self._index.dtype}: NumPy knows no such type") from None

    def empty(self) -> Any:
        """An array of no records."""
        return numpy().empty(0, self._dtype())

    def record(self, memory: Any, place: int, nbytes: int) -> Any:
        """One record."""
        if self._framework == "bytes":
            return memoryview(memory).cast("B")[place : place + nbytes]
        return self._typed(numpy().frombuffer(memory, "u1", nbytes, place) if nbytes else numpy().empty(0, "u1"), ())

    def batch(self, memory: Any, places: Sequence[int], lengths: Sequence[int]) -> Any:
        """Records of a batch: of fixed size as one array, else a list."""
        if self._framework == "bytes" or not isinstance(self._index, Fixed):
            return [self.record(memory, *each) for each in zip(places, lengths)]
        count, nbytes = len(places), self._index.record_bytes
        if all(place == places[0] + turn * nbytes for turn, place in enumerate(places)):
            flat = numpy().frombuffer(memory, "u1", count * nbytes, places[0])
        else:
            rows = [numpy().frombuffer(memory, "u1", nbytes, place) for place in places]
            flat = numpy().concatenate(rows)
        return self._typed(flat, (count,))

    def _typed(self, flat: Any, ahead: tuple[int, ...]) -> Any:
        dtype, shape = self._dtype(), self._index.shape
        if not isinstance(self._index, Fixed):
            self.check("a record", flat.nbytes)
        if flat.ctypes.data % dtype.alignment:
            flat = flat.copy()
        if shape is None:
            shape = (-1,)
        if -1 in shape and flat.nbytes == 0:
            shape = tuple(0 if size == -1 else size for size in shape)
        return flat.view(dtype).reshape((*ahead, *shape))
