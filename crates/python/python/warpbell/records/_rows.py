"""What is written as records: any objects with bytes, or the rows of an array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._checks import type_name, whole
from .._stream import plain
from ..errors import ArgumentError, ArgumentTypeError
from ._shape import numpy


class Rows(NamedTuple):
    """Records that are to be written, and what they are."""

    records: Iterable[Any]
    nbytes: int | None
    """Bytes of each; None: any."""
    dtype: str
    shape: tuple[int, ...] | None


def rows_of(source: Any, record_bytes: int | None, dtype: str | None, shape: tuple[int, ...] | None) -> Rows:
    """Size, type and shape of a record are those of an array's rows where they are not given."""
    source = plain(source)
    if record_bytes is not None:
        record_bytes = whole("record_bytes", record_bytes, 1)
    if hasattr(source, "dtype") and hasattr(source, "shape"):
        return _of_array(source, record_bytes, dtype, shape)
    if not isinstance(source, Iterable):
        raise ArgumentTypeError(f"source of type {type_name(source)}: must be an array, or records one after the other")
    return Rows(source, record_bytes, "uint8" if dtype is None else dtype, shape)


def _of_array(source: Any, record_bytes: int | None, dtype: str | None, shape: tuple[int, ...] | None) -> Rows:
    if not source.shape:
        raise ArgumentError(f"source of type {type_name(source)}: is one number, and has no rows")
    own = _kept(source.dtype)
    sizes = tuple(source.shape[1:])
    nbytes = own.itemsize * math.prod(sizes)
    if nbytes == 0:
        raise ArgumentError(f"source of shape {tuple(source.shape)}: its rows have no bytes")
    if record_bytes not in (None, nbytes):
        raise ArgumentError(f"record_bytes {record_bytes}: a row of the array has {nbytes}")
    return Rows(_bytes_of(source, own), nbytes, own.str if dtype is None else dtype, sizes if shape is None else shape)


def _kept(dtype: Any) -> Any:
    """The type of an array, if an index can keep it by name."""
    try:
        own = numpy().dtype(dtype)
        kept = numpy().dtype(own.str) == own and not own.hasobject
    except TypeError:
        kept = False
    if not kept:
        raise ArgumentError(f"dtype {dtype}: an index has no name for it; write the bytes, such as array.view('u1'), and their dtype")
    return own


def _bytes_of(source: Any, dtype: Any) -> Iterator[Any]:
    """The rows as bytes: not all types of NumPy have the buffer protocol, and a single number forgets its order of bytes."""
    for row in source:
        yield numpy().ascontiguousarray(row, dtype).reshape(-1).view("u1")
