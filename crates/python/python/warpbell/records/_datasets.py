"""Records as datasets: by number, and as a stream that is shuffled, shared between ranks and resumed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from .._checks import type_name, whole
from .._drives import Drives, Ssds
from .._reader import Read, read
from ..errors import ArgumentError, ArgumentTypeError, CommandError, Error
from ._errors import RecordError
from ._index import Fixed, Index, Indexed, digest_of, load_index
from ._iterators import Counted, Share
from ._order import NumberError, Order
from ._shape import Shaper

# Records that are read together where no batches were asked for.
_TOGETHER = 32
_STATE_VERSION = 2


class Record(NamedTuple):
    """A record, and which one it is."""

    id: Any
    data: Any


class Batch(NamedTuple):
    """Records of a batch, and which ones they are. Those of fixed size are one array; others a list."""

    ids: Any
    data: Any


class Records:
    """What both datasets have: SSDs, an index, and what records are handed out as."""

    def __init__(
        self, ssds: Ssds, index: Index | str | os.PathLike[str], *, framework: str = "numpy", options: Mapping[str, Any] | None = None
    ) -> None:
        if isinstance(index, (str, os.PathLike)):
            index = load_index(index, 1 if not isinstance(ssds, Sequence) or isinstance(ssds, str) else len(ssds))
        if not isinstance(index, (Fixed, Indexed)):
            raise ArgumentError("index: must be records.Fixed, records.Indexed, or the path of an index")
        self.index: Index = index
        self._shaper = Shaper(index, framework)
        self._drives = Drives(ssds, options=options, layout=index.layout, chunk_bytes=index.chunk_bytes)
        self._checked = False

    def __len__(self) -> int:
        return self.index.count

    def close(self) -> None:
        """Closes the SSDs that were opened here: those that were given by name. The dataset is not used any more."""
        self._drives.close()

    def __enter__(self) -> Self:
        self._drives.check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _read(self, ids: Sequence[int]) -> Read:
        """Begins to read records."""
        if not self._checked:
            nbytes = self._drives.open().space.nbytes
            if self.index.end > nbytes:
                raise ArgumentError(f"index: its records end at byte {self.index.end}: the SSDs have {nbytes} bytes")
            self._checked = True

        def name(part: int, ssd: str, offset: int, error: CommandError) -> Exception:
            text = f"record {ids[part]}, {self.index.extent(ids[part])[1]} bytes at {offset} of {ssd}: {error}"
            return RecordError(text, record=ids[part], ssd=ssd, offset=offset, status=error.status)

        return read(self._drives, [self.index.extent(record) for record in ids], name)

    def _records(self, ids: Sequence[int], begun: Read) -> list[Any]:
        memory = begun.result()
        return [self._made(self._shaper.record(memory, place, self.index.extent(id)[1])) for id, place in zip(ids, begun.places)]

    def _batch(self, ids: Sequence[int], begun: Read) -> Any:
        data = self._shaper.batch(begun.result(), begun.places, [self.index.extent(record)[1] for record in ids])
        return [self._made(record) for record in data] if isinstance(data, list) else self._made(data)

    def _made(self, data: Any) -> Any:
        """What is handed out for an array: torch's datasets make a tensor of it."""
        return data

    def _numbers(self, ids: list[int]) -> Any:
        """What is handed out for the ids of a batch."""
        return ids


class MapDataset(Records):
    """Records by number: `dataset[7]`, or many at once, `dataset.fetch([7, 3, 9])`. Any number of threads may use it."""

    def __getitem__(self, record: int) -> Any:
        return self.fetch([record])[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[record] for record in range(len(self)))

    def fetch(self, ids: Sequence[int]) -> list[Any]:
        """These records, which are read at once."""
        if not isinstance(ids, Iterable):
            raise ArgumentTypeError(f"ids of type {type_name(ids)}: must be a list of records' numbers")
        known = [self._known(record) for record in ids]
        return self._records(known, self._read(known))

    def __getitems__(self, ids: Sequence[int]) -> list[Any]:
        return self.fetch(ids)

    def _known(self, record: Any) -> int:
        count = self.index.count
        number = whole("record", record, -(1 << 63))
        if not -count <= number < count:
            raise NumberError(f"record {number}: there are {count}")
        return number % count


class IterableDataset(Records):
    """Records as a stream, shuffled by (seed, epoch) and shared between ranks: in each epoch, every record exactly once.

    With `batch_size` it gives `Batch`es, the last of which may be smaller, else `Record`s. `prefetch` batches are read
    ahead. Iteration goes on where `position` is, and the end of an epoch leads to the begin of the next. One thread may
    iterate at a time; a new iterator ends the one before. Where a record cannot be read, the position stays before it: a new
    iterator reads it again, `skip` leaves it out, and so does the same iterator if it is asked for more.
    """

    def __init__(
        self,
        ssds: Ssds,
        index: Index | str | os.PathLike[str],
        *,
        batch_size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        epoch: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        prefetch: int = 4,
        framework: str = "numpy",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        Records.__init__(self, ssds, index, framework=framework, options=options)
        self.batch_size = None if batch_size is None else whole("batch_size", batch_size, 1)
        self.prefetch = whole("prefetch", prefetch, 1)
        self._order = Order(self.index.count, shuffle=shuffle, seed=seed, epoch=epoch, rank=rank, world_size=world_size)
        self._position = 0
        self._iterator = 0
        self._digest: str | None = None

    def __len__(self) -> int:
        """What an epoch of this rank gives: batches, or records."""
        return -(-len(self._order) // (self.batch_size or 1))

    @property
    def epoch(self) -> int:
        """The epoch that is read."""
        return self._order.epoch

    @property
    def position(self) -> int:
        """Records of this epoch that this rank has handed out."""
        return self._position

    @property
    def order(self) -> Order:
        """The record ids of this rank in this epoch."""
        return self._order

    def set_epoch(self, epoch: int) -> None:
        """Goes to the begin of an epoch. The one that is read goes on where it is."""
        if whole("epoch", epoch) != self.epoch:
            self._go_to(epoch, 0)

    def restart(self) -> None:
        """Goes to the begin of this epoch."""
        self._go_to(self.epoch, 0)

    def skip(self, count: int = 1) -> None:
        """Goes on behind the next `count` batches of this epoch, or records: behind one that cannot be read."""
        records = whole("count", count, 1) * (self.batch_size or 1)
        self._go_to(self.epoch, min(self._position + records, len(self._order)))

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is, in plain numbers: for `load_state_dict` of the same dataset in another process."""
        order = self._order
        return {
            "version": _STATE_VERSION,
            "count": order.count,
            "index": self._index_digest(),
            "shuffle": order.shuffle,
            "seed": order.seed,
            "rank": order.rank,
            "world_size": order.world_size,
            "epoch": order.epoch,
            "position": self._position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a stream was. It must be one of the same records, order and ranks."""
        if not isinstance(state, Mapping):
            raise ArgumentTypeError(f"state of type {type_name(state)}: must be what state_dict gave")
        mine = self.state_dict()
        for name in ("version", "count", "index", "shuffle", "seed", "rank", "world_size"):
            if name not in state or state[name] != mine[name]:
                raise ArgumentError(f"state's {name} {state.get(name)}: this dataset has {mine[name]}")
        position = whole("state's position", state.get("position"), 0, len(self._order))
        self._go_to(whole("state's epoch", state.get("epoch")), position)

    def _go_to(self, epoch: int, position: int) -> None:
        self._order.set_epoch(epoch)
        self._position = position
        self._iterator += 1

    def _index_digest(self) -> str:
        if self._digest is None:
            self._digest = digest_of(self.index)
        return self._digest

    def __iter__(self) -> Iterator[Any]:
        return self._counted(self._share(0, 1))

    def _counted(self, source: Iterator[tuple[Any, int]]) -> Counted:
        """Hands out what was read for this rank, and counts its records: `position` goes on."""
        self._iterator += 1
        return Counted(self, source, self._iterator)

    def _check_newest(self, iterator: int) -> None:
        self._drives.check_open()
        if iterator != self._iterator:
            raise Error("iterator: ended: its dataset went elsewhere, or has a newer iterator")

    def _pass(self, records: int) -> None:
        """Goes on behind records, within an iterator."""
        self._position = min(self._position + records, len(self._order))

    def _share(self, worker: int, workers: int) -> Share:
        """What one of several workers gives, which take batches in turn, and the records of each."""
        return Share(self._read, self._given, self._blocks(self._position, worker, workers), self.prefetch, self.batch_size is None)

    def _blocks(self, position: int, worker: int, workers: int) -> Iterator[list[int]]:
        """The ids that are read together."""
        order, size = self._order, self.batch_size or 1
        begins = iter(range(position + worker * size, len(order), workers * size))
        together = 1 if self.batch_size else _TOGETHER
        while first := list(itertools.islice(begins, together)):
            yield [order[position] for begin in first for position in range(begin, min(begin + size, len(order)))]

    def _given(self, ids: list[int], begun: Read) -> list[tuple[Any, int]]:
        if self.batch_size:
            return [(Batch(self._numbers(ids), self._batch(ids, begun)), len(ids))]
        return [(Record(record, data), 1) for record, data in zip(ids, self._records(ids, begun))]
