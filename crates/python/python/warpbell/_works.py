"""What works on this machine, and where the headers are."""

from __future__ import annotations

import os

from ._warpbell import _targets
from .errors import ArgumentError, MissingError

_DEVICE = os.path.join(os.path.dirname(__file__), "_device")
_KINDS = ("ltoir", "o", "bc")
_INCLUDE = os.path.join(os.path.dirname(__file__), "_include")


def get_include() -> str:
    """The folder of the device library's and the C library's headers: `-I` for nvcc, CuPy and torch extensions."""
    if not os.path.isfile(os.path.join(_INCLUDE, "warpbell", "warpbell.cuh")):
        raise MissingError(f"headers in {_INCLUDE} are not available: this package was built without them (scripts/lib/build-wheel)")
    return _INCLUDE


def get_flat_layer(kind: str = "ltoir") -> str:
    """The flat layer, which kernels of other compilers are linked with: `ltoir` for nvJitLink, and with it Numba, `o` for nvcc
    and nvlink, `bc` for compilers that take LLVM bitcode."""
    if kind not in _KINDS:
        raise ArgumentError(f"kind {kind!r}: must be one of {', '.join(_KINDS)}")
    path = os.path.join(_DEVICE, f"warpbell_device.{kind}")
    if not os.path.isfile(path):
        raise MissingError(f"flat layer {path} is not available: this package was built without it (scripts/release)")
    return path


def what_works() -> dict[str, str | None]:
    """What there is, each with the reason why it does not work: None where it does.

    `ssd` is I/O with soft SSDs, which works everywhere; `cpu`, `ptx` and `cuda:0` are targets of kernels.
    """
    return {"ssd": None, **dict(_targets())}
