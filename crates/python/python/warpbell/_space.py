"""Several SSDs as one range of bytes: the one that a `warpbell.Volume` of them has for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ._checks import one_of, whole
from .errors import ArgumentError

LAYOUTS = ("stripe", "concatenate")
CHUNK_BYTES = 128 << 10


class Piece(NamedTuple):
    """Bytes that lie together on one SSD."""

    ssd: int
    offset: int
    nbytes: int
    begin: int
    """Where they begin in the space."""


class _Region(NamedTuple):
    """Chunks that go to the same SSDs in turn."""

    first_chunk: int
    first_row: int
    members: tuple[int, ...]


class Space:
    """The bytes of SSDs. Of several SSDs each holds whole chunks, from its first byte on; one alone has all its bytes."""

    def __init__(self, sizes: Sequence[tuple[int, int]], layout: str = "stripe", chunk_bytes: int = CHUNK_BYTES) -> None:
        """`sizes` has bytes and block size of each SSD."""
        self.block_size = max(block for _, block in sizes)
        self.chunk_bytes = whole("chunk_bytes", chunk_bytes, 1)
        self._stripes = one_of("layout", layout, LAYOUTS) == "stripe"
        if self.chunk_bytes % self.block_size:
            raise ArgumentError(f"chunk_bytes {chunk_bytes}: must be a multiple of the block size, {self.block_size}")
        self._alone = len(sizes) == 1
        self._chunks = [nbytes // self.chunk_bytes for nbytes, _ in sizes]
        self.nbytes = sizes[0][0] if self._alone else sum(self._chunks) * self.chunk_bytes
        self._regions = _striped(self._chunks) if self._stripes else _in_turn(self._chunks)

    def pieces(self, begin: int, end: int) -> Iterator[Piece]:
        """Where bytes `begin` to `end` lie, in their order."""
        if end > self.nbytes:
            raise ArgumentError(f"offset {begin} and {end - begin} bytes: the SSDs have {self.nbytes} bytes")
        if self._alone:
            yield Piece(0, begin, end - begin, begin)
            return
        held: Piece | None = None
        while begin < end:
            ssd, offset = self._locate(begin)
            nbytes = min(self.chunk_bytes - begin % self.chunk_bytes, end - begin)
            if held is not None and (held.ssd, held.offset + held.nbytes) == (ssd, offset):
                held = held._replace(nbytes=held.nbytes + nbytes)
            else:
                if held is not None:
                    yield held
                held = Piece(ssd, offset, nbytes, begin)
            begin += nbytes
        if held is not None:
            yield held

    def _locate(self, at: int) -> tuple[int, int]:
        """The SSD of a byte, and where it lies there."""
        chunk, inside = divmod(at, self.chunk_bytes)
        region = next(region for region in reversed(self._regions) if region.first_chunk <= chunk)
        row, turn = divmod(chunk - region.first_chunk, len(region.members))
        return region.members[turn], (region.first_row + row) * self.chunk_bytes + inside


def _striped(chunks: Sequence[int]) -> list[_Region]:
    """Chunks go to the SSDs in turn, the smallest first; where smaller SSDs end, to the others."""
    by_size = sorted(range(len(chunks)), key=chunks.__getitem__)
    regions: list[_Region] = []
    first_chunk = first_row = 0
    for rows in sorted({rows for rows in chunks if rows}):
        members = tuple(ssd for ssd in by_size if chunks[ssd] >= rows)
        regions.append(_Region(first_chunk, first_row, members))
        first_chunk += (rows - first_row) * len(members)
        first_row = rows
    return regions


def _in_turn(chunks: Sequence[int]) -> list[_Region]:
    """The SSDs follow one another."""
    begins = [sum(chunks[:ssd]) for ssd in range(len(chunks))]
    return [_Region(begin, 0, (ssd,)) for ssd, begin in enumerate(begins) if chunks[ssd]]
