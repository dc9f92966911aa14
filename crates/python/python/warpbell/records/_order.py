"""Which records a rank reads in an epoch, and in which order: a function of (seed, epoch), of which nothing is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from .._checks import whole
from ..errors import ArgumentError

_MASK = (1 << 64) - 1
_ROUNDS = 8


class NumberError(ArgumentError, IndexError):
    """A number behind the last. Python ends loops over sequences by it."""


class Permutation:
    """A permutation of the numbers below `count`: a Feistel network over the next power of two, walked until it is inside.

    It takes a few hundred bytes, whatever `count` is.
    """

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        bits = max(2, (count - 1).bit_length())
        self._count, self._low_bits = count, bits // 2
        self._low_mask, self._high_mask = (1 << bits // 2) - 1, (1 << bits - bits // 2) - 1
        digest = hashlib.sha512(f"warpbell records {seed} {epoch} {count}".encode()).digest()
        self._keys = [int.from_bytes(digest[at : at + 8], "little") for at in range(0, 8 * _ROUNDS, 8)]

    def __call__(self, number: int) -> int:
        while True:
            number = self._step(number)
            if number < self._count:
                return number

    def _step(self, number: int) -> int:
        low, high = number & self._low_mask, number >> self._low_bits
        for turn, key in enumerate(self._keys):
            if turn & 1:
                low ^= _mix(high, key) & self._low_mask
            else:
                high ^= _mix(low, key) & self._high_mask
        return high << self._low_bits | low


def _mix(value: int, key: int) -> int:
    """Every bit of the answer depends on every bit of the value and the key (the finish of splitmix64)."""
    mixed = (value + key) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


class Order:
    """The record ids of one rank in one epoch. A sequence, which serves as a sampler, too.

    All ranks of an epoch together have every record exactly once; they differ by one record at most. Rank and world size
    are those of `RANK` and `WORLD_SIZE` if they are not given; without those there is one rank.
    """

    def __init__(
        self,
        count: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        epoch: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        self.count = whole("count", count)
        self.shuffle = bool(shuffle)
        self.seed = whole("seed", seed)
        self.rank, self.world_size = ranks(rank, world_size)
        self.epoch = -1
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Takes the order of another epoch."""
        self.epoch = whole("epoch", epoch)
        self._permutation = Permutation(self.count, self.seed, self.epoch) if self.shuffle and self.count else None

    def __len__(self) -> int:
        return (self.count - self.rank + self.world_size - 1) // self.world_size

    def __getitem__(self, position: int) -> int:
        position = whole("position", position, -(1 << 63))
        if not 0 <= position < len(self):
            raise NumberError(f"position {position}: rank {self.rank} of {self.world_size} has {len(self)} records")
        number = self.rank + position * self.world_size
        return number if self._permutation is None else self._permutation(number)

    def __iter__(self) -> Iterator[int]:
        return (self[position] for position in range(len(self)))


def ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size, by default those that torchrun and others set."""
    if (rank is None) != (world_size is None):
        raise ArgumentError(f"rank {rank} of {world_size}: give both rank and world_size, or neither")
    if rank is None:
        rank, world_size = _of_environment("RANK"), _of_environment("WORLD_SIZE")
        if (rank is None) != (world_size is None):
            raise ArgumentError("environment: RANK and WORLD_SIZE: one is set and the other is not; set both, or neither")
        if rank is None:
            return 0, 1
    size = whole("world_size", world_size, 1)
    return whole("rank", rank, 0, size - 1), size


def _of_environment(name: str) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise ArgumentError(f"environment variable {name}={text}: must be a whole number")
    return int(text)
