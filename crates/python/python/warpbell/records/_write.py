"""Writes records to SSDs, one behind the other."""

from __future__ import annotations

import array
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .._checks import whole
from .._drives import Drives, Ssds
from .._space import CHUNK_BYTES
from .._stream import Stream, flat
from ..errors import ArgumentError
from ._index import Fixed, Index, Indexed, check_folder, save_index
from ._rows import Rows, rows_of
from ._shape import Shaper


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
    """Writes records, each an object with the buffer protocol or a tensor, from byte `offset` on, and says where they are.

    With `record_bytes`, or where `source` is an array or a tensor, whose rows are the records, all have one size. Each begins
    at a multiple of `align` bytes: at multiples of the block size they are read without a copy. `index` names the file that the
    answer is written to. `options` are those of `warpbell.open` for SSDs given by name. A type or shape that records do not
    have is refused before anything is written; where records have any size, before the record is.
    """
    align, begin = whole("align", align, 1), whole("offset", offset)
    if index is not None:
        check_folder(index)
    rows = rows_of(source, record_bytes, dtype, shape)
    placed: dict[str, Any] = {"layout": layout, "chunk_bytes": chunk_bytes, "dtype": rows.dtype, "shape": rows.shape}
    written: Index = Indexed(offsets=(), lengths=(), **placed)
    if rows.nbytes is not None:
        written = Fixed(record_bytes=rows.nbytes, count=0, offset=begin, stride=-(-rows.nbytes // align) * align, **placed)
    # Bytes need no NumPy.
    shaper = None if (rows.dtype, rows.shape) == ("uint8", None) else Shaper(written, "numpy")
    drives = Drives(ssds, options=options, layout=layout, chunk_bytes=chunk_bytes)
    try:
        offsets, lengths = _write_all(Stream(drives, begin), rows, align, shaper)
    finally:
        drives.close()
    if isinstance(written, Fixed):
        written = replace(written, count=len(lengths))
    else:
        written = Indexed(offsets=offsets, lengths=lengths, **placed)
    if index is not None:
        save_index(index, written, len(drives.names))
    return written


def _write_all(stream: Stream, rows: Rows, align: int, shaper: Shaper | None) -> tuple[array.array[int], array.array[int]]:
    """Writes each record at a multiple of `align` bytes from the first on: where they lie, and their bytes."""
    begin = stream.at
    offsets, lengths = array.array("Q"), array.array("Q")
    for number, record in enumerate(rows.records):
        data = flat(record)
        if rows.nbytes is not None and len(data) != rows.nbytes:
            raise ArgumentError(f"record {number} of {len(data)} bytes: must have record_bytes, {rows.nbytes}")
        if rows.nbytes is None and shaper is not None:
            shaper.check(f"record {number}", len(data))
        stream.pad((begin - stream.at) % align)
        offsets.append(stream.at)
        lengths.append(len(data))
        stream.write(data)
    stream.finish()
    return offsets, lengths
