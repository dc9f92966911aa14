"""Writes records to SSDs, one behind the other."""

from __future__ import annotations

import array
import os
from collections.abc import Iterable, Mapping
from typing import Any

from .._checks import whole
from .._drives import Drives, Ssds
from .._space import CHUNK_BYTES
from .._stream import Stream, flat
from ..errors import ArgumentError
from ._index import Fixed, Index, Indexed, save_index


def write(
    ssds: Ssds,
    source: Iterable[Any],
    *,
    record_bytes: int | None = None,
    index: str | os.PathLike[str] | None = None,
    offset: int = 0,
    align: int = 1,
    layout: str = "stripe",
    chunk_bytes: int = CHUNK_BYTES,
    dtype: str | None = None,
    shape: tuple[int, ...] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Index:
    """Writes records, each an object with the buffer protocol, from byte `offset` on, and says where they are.

    With `record_bytes`, or where `source` is an array whose rows are the records, all have one size. Each begins at a
    multiple of `align` bytes: at multiples of the block size they are read without a copy. `index` names the file that the
    answer is written to. `options` are those of `warpbell.open` for SSDs given by name.
    """
    align = whole("align", align, 1)
    size, dtype, shape = _row(source, record_bytes, dtype, shape)
    drives = Drives(ssds, options=options, layout=layout, chunk_bytes=chunk_bytes)
    try:
        begin = whole("offset", offset)
        offsets, lengths = _write_all(Stream(drives, begin), source, align, size)
    finally:
        drives.close()
    placed: dict[str, Any] = {"layout": layout, "chunk_bytes": chunk_bytes, "dtype": dtype, "shape": shape}
    written: Index
    if size is None:
        written = Indexed(offsets=offsets, lengths=lengths, **placed)
    else:
        written = Fixed(record_bytes=size, count=len(lengths), offset=begin, stride=-(-size // align) * align, **placed)
    if index is not None:
        save_index(index, written, len(drives.names))
    return written


def _write_all(stream: Stream, source: Iterable[Any], align: int, size: int | None) -> tuple[array.array[int], array.array[int]]:
    """Writes each record at a multiple of `align` bytes from the first on: where they lie, and their bytes."""
    begin = stream.at
    offsets, lengths = array.array("Q"), array.array("Q")
    for number, record in enumerate(source):
        data = flat(record)
        if size is not None and len(data) != size:
            raise ArgumentError(f"record {number} of {len(data)} bytes: must have record_bytes, {size}")
        stream.pad((begin - stream.at) % align)
        offsets.append(stream.at)
        lengths.append(len(data))
        stream.write(data)
    stream.finish()
    return offsets, lengths


def _row(
    source: Any, record_bytes: int | None, dtype: str | None, shape: tuple[int, ...] | None
) -> tuple[int | None, str, tuple[int, ...] | None]:
    """Size, type and shape of a record: those of an array's rows where they are not given."""
    if record_bytes is not None:
        record_bytes = whole("record_bytes", record_bytes, 1)
    if hasattr(source, "dtype") and getattr(source, "ndim", 0) > 1:
        dtype = dtype or source.dtype.str
        shape = shape or tuple(source.shape[1:])
        record_bytes = record_bytes or source.nbytes // max(1, source.shape[0])
    return record_bytes, dtype or "uint8", shape
