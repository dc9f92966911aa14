"""Iterators of streams. A record that cannot be read does not end them: they go on behind it."""

from __future__ import annotations

import collections
import os
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .._reader import Read
from ..errors import Error
from ._errors import RecordError

if TYPE_CHECKING:
    from ._datasets import IterableDataset

# What is handed out, and its records.
_Given = tuple[Any, int]


class _Part(NamedTuple):
    """Ids that are read together. None: their read has yet to begin."""

    ids: list[int]
    begun: Read | None


class Share:
    """What one of several workers gives. A `RecordError` costs its batch; without batches, its record alone. Where another
    failure is told, the same is tried again."""

    def __init__(
        self,
        read: Callable[[list[int]], Read],
        made: Callable[[list[int], Read], list[_Given]],
        blocks: Iterator[list[int]],
        prefetch: int,
        single: bool,
    ) -> None:
        self._read, self._made, self._blocks, self._prefetch, self._single = read, made, blocks, prefetch, single
        self._next: list[int] | None = None
        self._ahead: collections.deque[_Part | RecordError] = collections.deque()
        self._ready: collections.deque[_Given] = collections.deque()
        weakref.finalize(self, _drop, self._ahead, os.getpid()).atexit = False

    def __iter__(self) -> Iterator[_Given]:
        return self

    def __next__(self) -> _Given:
        while not self._ready:
            self._fill()
            if not self._ahead:
                raise StopIteration
            part = self._ahead.popleft()
            if isinstance(part, RecordError):
                raise part
            self._take(part)
        return self._ready.popleft()

    def _fill(self) -> None:
        """Reads ahead. What cannot even be begun is told when it is its turn."""
        while len(self._ahead) <= self._prefetch:
            self._next = self._next or next(self._blocks, None)
            if self._next is None:
                return
            try:
                self._ahead.append(_Part(self._next, self._read(self._next)))
            except Error:
                if not self._ahead:
                    raise
                return
            self._next = None

    def _take(self, part: _Part) -> None:
        """Waits for what was read together."""
        ids = part.ids
        try:
            self._ready.extend(self._made(ids, part.begun or self._read(ids)))
        except RecordError as error:
            if not self._single or error.record not in ids:
                raise
            # It is told of one record alone: those before it and behind it are read again.
            at = ids.index(error.record)
            parts = (_Part(ids[:at], None), error.with_traceback(None), _Part(ids[at + 1 :], None))
            self._ahead.extendleft(one for one in reversed(parts) if isinstance(one, RecordError) or one.ids)
        except BaseException:
            self._ahead.appendleft(_Part(ids, None))
            raise


def _drop(ahead: collections.deque[_Part | RecordError], process: int) -> None:
    """Waits for reads that nobody wants any more; a child of fork leaves them to its parent."""
    if os.getpid() != process:
        return
    for part in ahead:
        if isinstance(part, _Part) and part.begun is not None:
            part.begun.drop()


class Counted:
    """Hands out what was read, and counts its records in the dataset. A failure that names no record ends it: shares of several
    workers may be out of order behind one."""

    def __init__(self, dataset: IterableDataset, source: Iterator[_Given], number: int) -> None:
        self._dataset, self._source, self._number = dataset, source, number
        self._failed = self._ended = self._broken = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        dataset = self._dataset
        if self._ended:
            raise StopIteration
        self._check_newest()
        if self._broken:
            raise Error("iterator: ended by a failure; a new one goes on at the dataset's position")
        if self._failed:
            dataset._pass(dataset.batch_size or 1)
            self._failed = False
        try:
            given, records = next(self._source)
        except StopIteration:
            self._check_newest()
            self._ended = True
            dataset.set_epoch(dataset.epoch + 1)
            raise
        except RecordError:
            self._failed = True
            raise
        except BaseException:
            self._broken = True
            raise
        self._check_newest()
        dataset._pass(records)
        return given

    def _check_newest(self) -> None:
        self._dataset._check_newest(self._number)
