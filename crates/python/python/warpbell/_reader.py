"""Reads parts of a space: aligned to blocks and cut, neighbours in one command, many in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ._drives import Drives, Opened
from ._memory import Memory
from ._space import Piece
from ._warpbell import Future
from .errors import CommandError, Error

# A begin in the space, and bytes.
Extent = tuple[int, int]
# Makes the error of a part that could not be read: which one, the SSD's name, the offset there, and the cause.
Namer = Callable[[int, str, int, CommandError], Exception]


class _Run(NamedTuple):
    """Whole blocks that are read together."""

    begin: int
    end: int
    at: int
    """Where they go in the memory."""


class Read:
    """A read in flight."""

    def __init__(self, opened: Opened, extents: Sequence[Extent], namer: Namer, first: int = 0) -> None:
        self._opened, self._extents, self._namer, self._first = opened, extents, namer, first
        runs, self.places = _plan(extents, opened.space.block_size)
        # What cannot be read is refused before anything is sent.
        pieces = [(run, list(opened.space.pieces(run.begin, run.end))) for run in runs]
        nbytes = runs[-1].at + runs[-1].end - runs[-1].begin if runs else 0
        self._memory: Memory | None = opened.pool.take(nbytes) if nbytes else None
        self._sent: list[tuple[Piece, Future]] = []
        for run, lying in pieces:
            self._send(run, lying)

    def _send(self, run: _Run, pieces: Sequence[Piece]) -> None:
        memory, ssds = self._memory, self._opened.ssds
        assert memory is not None
        for piece in pieces:
            at = run.at + piece.begin - run.begin
            future = ssds[piece.ssd].read_into(memory.buffers[piece.ssd], piece.offset, at=at, nbytes=piece.nbytes)
            self._sent.append((piece, future))

    def result(self) -> Any:
        """Waits: an object with the buffer protocol in which each part lies at its place. Once."""
        failed = self._wait()
        memory, self._memory = self._memory, None
        if memory is None:
            return bytearray()
        if failed is not None:
            self._opened.pool.put(memory)
            raise self._named(*failed)
        return self._opened.pool.lend(memory)

    def drop(self) -> None:
        """Waits for the end of a read that nobody wants any more."""
        self._wait()
        memory, self._memory = self._memory, None
        if memory is not None:
            self._opened.pool.put(memory)

    def _wait(self) -> tuple[Piece, BaseException] | None:
        """The first failure, after the end of all."""
        failed = None
        for piece, future in self._sent:
            error = future.exception()
            if error is not None and failed is None:
                failed = piece, error
        return failed

    def _named(self, piece: Piece, error: BaseException) -> BaseException:
        """The error with the part that could not be read: where a command had several, each is read alone."""
        if not isinstance(error, CommandError):
            return error
        end = piece.begin + piece.nbytes
        hit = [part for part, (begin, nbytes) in enumerate(self._extents) if nbytes and begin < end and begin + nbytes > piece.begin]
        if len(hit) > 1:
            return self._alone(hit, error)
        offset = piece.offset + max(0, self._extents[hit[0]][0] - piece.begin)
        return self._namer(self._first + hit[0], self._opened.ssds[piece.ssd].name, offset, error)

    def _alone(self, parts: list[int], error: CommandError) -> BaseException:
        """The first of the parts that cannot be read alone."""
        for part in parts:
            try:
                Read(self._opened, [self._extents[part]], self._namer, self._first + part).result()
            except Error as named:
                return named
        failure = CommandError(f"{error}; each of its {len(parts)} parts could be read alone afterwards")
        failure.status = error.status
        return failure


def read(drives: Drives, extents: Sequence[Extent], namer: Namer) -> Read:
    """Begins to read these parts."""
    return Read(drives.open(), extents, namer)


def _plan(extents: Sequence[Extent], block: int) -> tuple[list[_Run], list[int]]:
    """What is read together, and where each part will lie.

    Parts of whole blocks keep their order, so that they lie one behind the other. Others are read by place: a block that
    two of them share is read once.
    """
    whole_blocks = all(begin % block == 0 and nbytes % block == 0 for begin, nbytes in extents)
    order = range(len(extents)) if whole_blocks else sorted(range(len(extents)), key=extents.__getitem__)
    runs: list[_Run] = []
    places = [0] * len(extents)
    for part in order:
        begin, nbytes = extents[part]
        if nbytes == 0:
            continue
        first, end = begin - begin % block, -(-(begin + nbytes) // block) * block
        last = runs[-1] if runs else None
        if last is not None and (first == last.end if whole_blocks else last.begin <= first <= last.end):
            runs[-1] = last._replace(end=max(last.end, end))
        else:
            runs.append(_Run(first, end, last.at + last.end - last.begin if last is not None else 0))
        places[part] = runs[-1].at + begin - runs[-1].begin
    return runs, places
