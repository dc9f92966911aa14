"""Writes bytes one after the other to a space, with several commands in flight."""

from __future__ import annotations

import collections
from typing import Any

from ._checks import type_name
from ._drives import Drives
from ._memory import Memory
from ._warpbell import Future
from .errors import ArgumentError, ArgumentTypeError

# What is written by one request for each SSD.
_STEP_BYTES = 4 << 20
_IN_FLIGHT = 4


def plain(data: Any) -> Any:
    """A tensor of torch as an array over its memory; anything else as it is."""
    if not (hasattr(data, "data_ptr") and hasattr(data, "resolve_conj")):
        return data
    if data.device.type != "cpu":
        raise ArgumentError(f"tensor on {data.device}: must lie in memory of the host: tensor.cpu()")
    try:
        return data.detach().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ArgumentError(f"tensor of {data.dtype}: NumPy has no such array: {reason}; tensor.view(torch.uint8) has its bytes") from None


def flat(data: Any) -> memoryview:
    """The bytes of an object with the buffer protocol, or of a tensor: themselves, or a copy where they do not lie together."""
    try:
        view = memoryview(plain(data))
    except TypeError:
        raise ArgumentTypeError(f"data of type {type_name(data)}: must have the buffer protocol") from None
    if view.nbytes == 0:
        return memoryview(b"")
    if not view.c_contiguous or len(view.format) > 1:
        return memoryview(view.tobytes())
    return view.cast("B")


class Stream:
    """Bytes from `offset` on, which must be a multiple of the block size. What lies behind the last byte stays."""

    def __init__(self, drives: Drives, offset: int) -> None:
        if drives.file is not None:
            raise ArgumentError(f"ssds {drives.names[0]}: a file is only read")
        self._opened = drives.open()
        block = self._opened.space.block_size
        if offset % block:
            raise ArgumentError(f"offset {offset}: must be a multiple of the block size of {drives.names[0]}, {block} bytes")
        self._at, self._filled = offset, 0
        self._memory: Memory | None = None
        self._sent: collections.deque[tuple[Memory, list[Future]]] = collections.deque()

    @property
    def at(self) -> int:
        """Where the next byte goes."""
        return self._at + self._filled

    def write(self, data: Any) -> None:
        """Appends bytes: any object with the buffer protocol."""
        rest = flat(data)
        while rest:
            memory = self._memory = self._memory or self._opened.pool.take(_STEP_BYTES)
            count = min(memory.nbytes - self._filled, len(rest))
            memory.bytes[self._filled : self._filled + count] = rest[:count]
            self._filled += count
            rest = rest[count:]
            if self._filled == memory.nbytes:
                self._send(self._filled)

    def pad(self, nbytes: int) -> None:
        """Appends zeros."""
        while nbytes:
            step = min(nbytes, 1 << 16)
            self.write(bytes(step))
            nbytes -= step

    def finish(self) -> None:
        """Writes what is left, and makes all of it durable."""
        rest = -self._filled % self._opened.space.block_size
        if rest:
            self._keep_tail(rest)
        if self._filled:
            self._send(self._filled)
        while self._sent:
            self._settle()
        for ssd in self._opened.ssds:
            ssd.flush()

    def _keep_tail(self, rest: int) -> None:
        """Takes what the last block has behind our bytes."""
        block, memory = self._opened.space.block_size, self._memory
        assert memory is not None
        end = self._at + self._filled + rest
        (piece,) = self._opened.space.pieces(end - block, end)
        tail = self._opened.ssds[piece.ssd].read(piece.offset, block)
        memory.bytes[self._filled : self._filled + rest] = tail[block - rest :]
        self._filled += rest

    def _send(self, nbytes: int) -> None:
        while len(self._sent) >= _IN_FLIGHT:
            self._settle()
        memory = self._memory
        assert memory is not None
        futures: list[Future] = []
        self._sent.append((memory, futures))
        for piece in self._opened.space.pieces(self._at, self._at + nbytes):
            ssd, buffer = self._opened.ssds[piece.ssd], memory.buffers[piece.ssd]
            futures.append(ssd.write_from(buffer, piece.offset, at=piece.begin - self._at, nbytes=piece.nbytes))
        self._memory, self._at, self._filled = None, self._at + nbytes, 0

    def _settle(self) -> None:
        memory, futures = self._sent.popleft()
        errors = [error for future in futures if (error := future.exception()) is not None]
        self._opened.pool.put(memory)
        if errors:
            raise errors[0]
