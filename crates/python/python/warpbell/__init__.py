"""Warpbell: GPU-initiated NVMe, from Python.

`open` gives an `Ssd`; `Ssd.buffer` and `Ssd.register` memory that NumPy and others view without copies;
`Ssd.read_into` and `Ssd.write_from` futures; `compile` and `Ssd.attach` kernels that do I/O by themselves.
`warpbell.records`, `warpbell.torch` and `warpbell.safetensors` have datasets and tensors on SSDs, each imported by name.
`what_works()` says what this machine can do, `python -m warpbell.demo` shows it.
"""

from __future__ import annotations

from ._bench import BenchResult, bench
from ._warpbell import (
    Buffer,
    Future,
    Launch,
    Lease,
    NamespaceRef,
    PageCache,
    Program,
    Queues,
    Ssd,
    SsdInfo,
    TileSchedule,
    Volume,
    VolumeBuffer,
    __version__,
    compile,
    load,
    open,
)
from ._works import get_flat_layer, get_include, what_works
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    BenchError,
    BusyError,
    ClosedError,
    CommandError,
    CompileError,
    DeviceError,
    Error,
    ExportedError,
    KernelError,
    MissingError,
    RefusedError,
    UndeletedError,
    WaitTimeoutError,
)

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "BenchError",
    "BenchResult",
    "Buffer",
    "BusyError",
    "ClosedError",
    "CommandError",
    "CompileError",
    "DeviceError",
    "Error",
    "ExportedError",
    "Future",
    "KernelError",
    "Launch",
    "Lease",
    "MissingError",
    "NamespaceRef",
    "PageCache",
    "Program",
    "Queues",
    "RefusedError",
    "Ssd",
    "SsdInfo",
    "TileSchedule",
    "UndeletedError",
    "Volume",
    "VolumeBuffer",
    "WaitTimeoutError",
    "__version__",
    "bench",
    "compile",
    "get_flat_layer",
    "get_include",
    "load",
    "open",
    "what_works",
]
