"""The kinds of elements that the format has, and what NumPy, ml_dtypes and torch call them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ..errors import ArgumentError, MissingError


class Kind(NamedTuple):
    """One kind of elements."""

    bits: int
    numpy: str | None = None
    """NumPy's name; None: it has none."""
    extension: str | None = None
    """That of ml_dtypes, where NumPy has none."""
    torch: str | None = None
    letters: str = ""
    """What the buffer protocol calls it."""


KINDS: dict[str, Kind] = {
    "F64": Kind(64, "<f8", None, "float64", "d"),
    "I64": Kind(64, "<i8", None, "int64", "qln"),
    "U64": Kind(64, "<u8", None, "uint64", "QLN"),
    "C64": Kind(64, "<c8", None, "complex64", ""),
    "F32": Kind(32, "<f4", None, "float32", "f"),
    "I32": Kind(32, "<i4", None, "int32", "i"),
    "U32": Kind(32, "<u4", None, "uint32", "I"),
    "F16": Kind(16, "<f2", None, "float16", "e"),
    "BF16": Kind(16, None, "bfloat16", "bfloat16"),
    "I16": Kind(16, "<i2", None, "int16", "h"),
    "U16": Kind(16, "<u2", None, "uint16", "H"),
    "F8_E5M2": Kind(8, None, "float8_e5m2", "float8_e5m2"),
    "F8_E4M3": Kind(8, None, "float8_e4m3fn", "float8_e4m3fn"),
    "F8_E8M0": Kind(8, None, "float8_e8m0fnu", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": Kind(8, None, "float8_e4m3fnuz", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": Kind(8, None, "float8_e5m2fnuz", "float8_e5m2fnuz"),
    "I8": Kind(8, "|i1", None, "int8", "b"),
    "U8": Kind(8, "|u1", None, "uint8", "Bc"),
    "BOOL": Kind(8, "|b1", None, "bool", "?"),
    # Elements that are no whole bytes: they are handed out as bytes.
    "F6_E2M3": Kind(6),
    "F6_E3M2": Kind(6),
    "F4": Kind(4),
}

OF_NUMPY = {kind.numpy: name for name, kind in KINDS.items() if kind.numpy}
OF_EXTENSION = {kind.extension: name for name, kind in KINDS.items() if kind.extension}
OF_TORCH = {f"torch.{kind.torch}": name for name, kind in KINDS.items() if kind.torch}
OF_LETTER = {letter: name for name, kind in KINDS.items() for letter in kind.letters}
_RAW = {16: "<u2", 8: "|u1"}


@functools.cache
def numpy() -> Any:
    """NumPy, or an exception that says what to do."""
    try:
        import numpy
    except ImportError:
        raise MissingError('numpy is not available: pip install numpy, or take framework="bytes"') from None
    return numpy


@functools.cache
def extension_types() -> Any | None:
    """ml_dtypes, if it is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes


def to_numpy(flat: Any, name: str, shape: tuple[int, ...], raw: bool = False) -> Any:
    """An array over bytes. Kinds that NumPy has no type for have one of ml_dtypes; without it, or `raw`, unsigned numbers of
    the same size. Those of no whole bytes are one row of bytes."""
    kind = KINDS[name]
    array = numpy().frombuffer(flat, "u1")
    if kind.bits < 8:
        return array
    dtype = kind.numpy or _RAW[kind.bits]
    own = None if raw or kind.numpy or extension_types() is None else getattr(extension_types(), str(kind.extension), None)
    return _shaped(_aligned(array, kind.bits // 8).view(own or dtype), shape, "NumPy")


def to_torch(flat: Any, name: str, shape: tuple[int, ...]) -> Any:
    """A tensor over bytes. Kinds that this torch does not have are refused."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f'framework="torch" needs torch, which cannot be imported: {error}') from None
    kind = KINDS[name]
    dtype = torch.uint8 if kind.bits < 8 else getattr(torch, str(kind.torch), None)
    if dtype is None:
        raise ArgumentError(f'dtype {name}: torch {torch.__version__} has no such type; framework="numpy" has its bytes')
    if len(flat) == 0:
        return _shaped(torch.empty(0, dtype=dtype), shape, "torch")
    tensor = torch.from_numpy(_aligned(numpy().frombuffer(flat, "u1"), max(1, kind.bits // 8))).view(dtype)
    return tensor if kind.bits < 8 else _shaped(tensor, shape, "torch")


def _shaped(array: Any, shape: tuple[int, ...], owner: str) -> Any:
    """The format has more shapes than others: any number of sizes, and sizes whose product is 0."""
    try:
        return array.reshape(shape)
    except (ValueError, RuntimeError, OverflowError) as error:
        text = "x".join(map(str, shape[:8])) + "x..." * (len(shape) > 8)
        raise ArgumentError(f'shape {text}: {owner} has none such: {error}; framework="bytes" has its bytes') from None


def _aligned(array: Any, item: int) -> Any:
    """The bytes themselves, or a copy where elements of this size lie at odd addresses."""
    return array if array.ctypes.data % item == 0 else array.copy()
