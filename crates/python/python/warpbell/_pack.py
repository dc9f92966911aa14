"""Packs a kernel's arguments as C packs the fields of a struct."""

from __future__ import annotations

import ctypes
from typing import Any

from .errors import ArgumentTypeError

# References of the library have 64-bit fields.
REFERENCE_ALIGNMENT = 8


def pack(arguments: tuple[Any, ...]) -> tuple[bytes, str]:
    """The bytes of the struct, and where each field lies, in words."""
    packed = bytearray()
    fields = []
    alignment = 1
    for index, argument in enumerate(arguments):
        data, own = _field(index, argument)
        alignment = max(alignment, own)
        packed += bytes(-len(packed) % own)
        fields.append(f"{type(argument).__name__} {len(data)} at {len(packed)}")
        packed += data
    packed += bytes(-len(packed) % alignment)
    return bytes(packed), ", ".join(fields) or "none"


def _field(index: int, argument: Any) -> tuple[bytes, int]:
    """The bytes of one argument, and what they are aligned to."""
    reference = getattr(argument, "__warpbell_reference__", None)
    if reference is not None:
        return reference(), REFERENCE_ALIGNMENT
    if isinstance(argument, bytes):
        return argument, 1
    if isinstance(argument, (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array)):
        return bytes(argument), ctypes.alignment(argument)
    # A NumPy scalar; NumPy need not be there.
    dtype = getattr(argument, "dtype", None)
    if dtype is not None and getattr(argument, "ndim", None) == 0 and not dtype.hasobject:
        return argument.tobytes(), dtype.alignment
    name = f"{type(argument).__module__}.{type(argument).__qualname__}"
    limit = "must be a NumPy scalar, a ctypes instance, bytes, a buffer or a reference such as queues.namespace"
    if isinstance(argument, (bool, int, float)):
        limit += f"; a Python {type(argument).__name__} has no size: numpy.uint32({argument}), ctypes.c_uint64({argument})"
    elif hasattr(argument, "__dlpack__") or hasattr(argument, "__array_interface__"):
        limit += "; kernels reach an array by a buffer of its memory: queues.register(array)"
    raise ArgumentTypeError(f"argument {index} of type {name.removeprefix('builtins.')}: {limit}")
