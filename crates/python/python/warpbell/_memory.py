"""Memory that all SSDs of a space reach. It is lent as views, and used again when the last of them is gone."""

from __future__ import annotations

import collections
import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any

from ._warpbell import Buffer, Ssd

# Bytes of free memory that are kept for later.
_KEPT_BYTES = 256 << 20
_LEAST_BYTES = 16 << 10
# Sizes are powers of two up to this, then multiples of it.
_COARSE_BYTES = 64 << 20


class Memory:
    """Bytes of the host, registered with each SSD."""

    def __init__(self, nbytes: int, ssds: Sequence[Ssd]) -> None:
        self.nbytes = nbytes
        self.bytes = mmap.mmap(-1, nbytes)
        self.buffers: list[Buffer] = [ssd.register(self.bytes) for ssd in ssds]

    def close(self) -> None:
        """Takes it from the SSDs. Views of it stay."""
        for buffer in self.buffers:
            buffer.close()


class Pool:
    """Memory for reads and writes. Any number of threads may use it."""

    def __init__(self, ssds: Sequence[Ssd]) -> None:
        self._ssds = ssds
        # Deques need no lock, so that a view may end at any time, also within another call of this class.
        self._free: dict[int, collections.deque[Memory]] = collections.defaultdict(collections.deque)
        self._made: weakref.WeakSet[Memory] = weakref.WeakSet()
        self._process = os.getpid()

    def take(self, nbytes: int) -> Memory:
        """Memory of at least so many bytes."""
        size = max(_LEAST_BYTES, 1 << (nbytes - 1).bit_length())
        if nbytes > _COARSE_BYTES:
            size = -(-nbytes // _COARSE_BYTES) * _COARSE_BYTES
        try:
            return self._free[size].pop()
        except IndexError:
            memory = Memory(size, self._ssds)
            self._made.add(memory)
            return memory

    def inherited(self) -> list[Memory]:
        """All memory of it: a child of fork keeps it, as the SSDs that know it are the parent's."""
        return list(self._made)

    def put(self, memory: Memory) -> None:
        """Takes memory back that nobody views and no command uses."""
        if os.getpid() != self._process:
            return
        kept = sum(size * len(free) for size, free in list(self._free.items()))
        if kept + memory.nbytes > _KEPT_BYTES:
            memory.close()
        else:
            self._free[memory.nbytes].append(memory)

    def lend(self, memory: Memory) -> Any:
        """An object with the buffer protocol over the memory, which comes back when its last view is gone."""
        view = (ctypes.c_ubyte * memory.nbytes).from_buffer(memory.bytes)
        weakref.finalize(view, self.put, memory).atexit = False
        return view
