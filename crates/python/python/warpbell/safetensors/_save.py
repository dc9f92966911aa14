"""Writes tensors to SSDs in the safetensors format."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from .._checks import type_name, whole
from .._drives import Drives, Ssds
from .._stream import Stream, flat
from ..errors import ArgumentError, ArgumentTypeError
from ._header import METADATA, TABLE_SUM, TENSOR_SUMS, Entry, Header, is_text, make, table_sum
from ._kinds import KINDS, OF_EXTENSION, OF_LETTER, OF_NUMPY, OF_TORCH, numpy


class _Tensor(NamedTuple):
    """A tensor as it is written."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def save(
    ssds: Ssds,
    tensors: Mapping[str, Any],
    offset: int = 0,
    *,
    metadata: Mapping[str, str] | None = None,
    checksums: bool = True,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Writes tensors from byte `offset` on, as one file of the format: its bytes.

    Tensors are arrays of NumPy, torch or JAX, or objects with the buffer protocol. `checksums` keeps the SHA-256 of each in
    the metadata. What lies behind the last byte stays.
    """
    given = _checked_metadata(metadata, checksums)
    _check_names(tensors)
    found = {name: _tensor(name, value) for name, value in sorted(tensors.items())}
    # As other writers do: the largest elements first, so that all are aligned.
    found = dict(sorted(found.items(), key=lambda item: -KINDS[item[1].dtype].bits))
    entries, end = {}, 0
    for name, tensor in found.items():
        entries[name] = Entry(tensor.dtype, tensor.shape, end, end + len(tensor.data))
        end += len(tensor.data)
    if checksums:
        given[TABLE_SUM] = table_sum(Header(entries, given))
        given[TENSOR_SUMS] = json.dumps({name: hashlib.sha256(tensor.data).hexdigest() for name, tensor in found.items()})
    drives = Drives(ssds, options=options)
    try:
        space = drives.open().space
        header = make(entries, given, space.block_size)
        if whole("offset", offset) + len(header) + end > space.nbytes:
            raise ArgumentError(f"offset {offset}: the file has {len(header) + end} bytes: the SSDs have {space.nbytes} bytes")
        stream = Stream(drives, offset)
        stream.write(header)
        for tensor in found.values():
            stream.write(tensor.data)
        stream.finish()
    finally:
        drives.close()
    return len(header) + end


def _checked_metadata(metadata: Any, checksums: bool) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ArgumentTypeError(f"metadata of type {type_name(metadata)}: must be a mapping of names to text")
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ArgumentTypeError(f"metadata {name!r} of type {type_name(text)}: must be text")
        if checksums and name in (TABLE_SUM, TENSOR_SUMS):
            raise ArgumentError(f"metadata {name!r}: is where checksums are kept: checksums=False, or another name")
        if not is_text(name) or not is_text(text):
            raise ArgumentError(f"metadata {name!r}: has half of a surrogate pair, which is no UTF-8")
    return dict(metadata)


def _check_names(tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise ArgumentTypeError(f"tensors of type {type_name(tensors)}: must be a mapping of names to tensors")
    for name in tensors:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"tensor {name!r}: its name must be text")
        if name == METADATA:
            raise ArgumentError(f"tensor {name!r}: is the format's own name")
        if not is_text(name):
            raise ArgumentError(f"tensor {name!r}: its name has half of a surrogate pair, which is no UTF-8")


def _tensor(name: str, value: Any) -> _Tensor:
    if type_name(value).startswith("torch.") and hasattr(value, "untyped_storage") or hasattr(value, "data_ptr"):
        return _of_torch(name, value)
    if hasattr(value, "dtype"):
        return _of_numpy(name, numpy().asarray(value))
    try:
        view = memoryview(value)
    except TypeError:
        limit = "must be an array of NumPy, torch or JAX, or have the buffer protocol"
        raise ArgumentTypeError(f"tensor {name!r} of type {type_name(value)}: {limit}") from None
    kind = _kind_of(view)
    if kind is None:
        raise ArgumentError(f"tensor {name!r}: elements of {view.format!r}: the format has none such")
    return _Tensor(kind, tuple(view.shape or ()), flat(view))


def _kind_of(view: memoryview) -> str | None:
    """The kind of a view's elements. `@` and `=` are this machine's order of bytes, and that of x86-64 is `<`."""
    letter = view.format.removeprefix("@").removeprefix("=")
    if sys.byteorder == "little":
        letter = letter.removeprefix("<")
    kind = OF_LETTER.get(letter)
    return kind if kind is not None and view.itemsize * 8 == KINDS[kind].bits else None


def _of_numpy(name: str, array: Any) -> _Tensor:
    dtype = array.dtype
    found = OF_NUMPY.get(dtype.newbyteorder("<").str) or OF_EXTENSION.get(dtype.name)
    if found is None:
        raise ArgumentError(f"tensor {name!r}: elements of {dtype}: the format has none such")
    ordered = array.astype(dtype.newbyteorder("<"), order="C", copy=False) if found in OF_NUMPY.values() else array
    # A type of ml_dtypes has no buffers: its bytes have.
    return _Tensor(found, array.shape, flat(numpy().ascontiguousarray(ordered).reshape(-1).view("u1")))


def _of_torch(name: str, tensor: Any) -> _Tensor:
    import torch

    found = OF_TORCH.get(str(tensor.dtype))
    if found is None:
        raise ArgumentError(f"tensor {name!r}: elements of {tensor.dtype}: the format has none such")
    if tensor.layout != torch.strided or tensor.is_meta:
        raise ArgumentError(f"tensor {name!r}: on {tensor.device}, of layout {tensor.layout}: must be dense, and have data: tensor.to_dense()")
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return _Tensor(found, tuple(tensor.shape), flat(plain.view(torch.uint8).numpy()) if plain.numel() else memoryview(b""))
