"""Records on SSDs as datasets of torch: `warpbell.records`, with tensors over the memory that the SSDs wrote to.

Worker processes open SSDs for themselves, by name. Datasets make batches on their own: `DataLoader(dataset,
batch_size=None)`, or `Loader(dataset)`, whose position can be saved with workers, too.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

try:
    import torch
    import torch.utils.data
except ImportError as error:
    raise ImportError(f"warpbell.torch needs torch, which cannot be imported: {error}; warpbell.records is the same for NumPy") from None

from . import records
from ._checks import type_name, whole
from .errors import ArgumentError, ArgumentTypeError, Error
from .records import Batch, Fixed, Index, Indexed, Order, Record, RecordError, load_index, write
from .records._datasets import Records

__all__ = [
    "Batch",
    "Fixed",
    "Index",
    "Indexed",
    "IterableDataset",
    "Loader",
    "MapDataset",
    "Order",
    "Record",
    "RecordError",
    "load_index",
    "write",
]


class _Tensors(Records):
    """Tensors in the place of arrays, over the same memory."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        if "framework" in options:
            raise ArgumentError(f"framework {options['framework']}: tensors are torch's; warpbell.records has others")
        super().__init__(*arguments, **options)
        empty = self._shaper.empty()
        if not empty.dtype.isnative:
            raise ArgumentError(f"dtype {self.index.dtype}: torch has no such order of bytes; write records in this machine's")
        try:
            self._made(empty)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"dtype {self.index.dtype}: torch has no such type: {error}") from None

    def _made(self, data: Any) -> Any:
        return torch.from_numpy(data)

    def _numbers(self, ids: list[int]) -> Any:
        return torch.tensor(ids, dtype=torch.int64)


class MapDataset(_Tensors, records.MapDataset, torch.utils.data.Dataset):
    """Records by number, as tensors."""


class IterableDataset(_Tensors, records.IterableDataset, torch.utils.data.IterableDataset):
    """Records as a stream, as tensors: `Batch` or `Record`, shuffled, shared between ranks, resumed.

    In a worker of a `DataLoader` it gives that worker's batches: all workers together give those of the rank, in the same
    order as without workers. They count nothing in the dataset that they are copies of: each epoch needs `set_epoch`.
    """

    _iterated = False

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return super().__iter__()
        if self._iterated:
            return _refused()
        self._iterated = True
        # Goes on behind an error, which a generator would not.
        return map(operator.itemgetter(0), self._share(worker.id, worker.num_workers))


def _refused() -> Iterator[Any]:
    """Tells when it is read: torch passes on what is raised then, and not what `iter` raises for workers that it keeps."""
    rule = "this worker's copy of the dataset had one before, and would repeat its epoch; start workers for each epoch"
    raise Error(f"iterator: {rule}, by persistent_workers=False")
    yield


class Loader:
    """An `IterableDataset` through worker processes: its `state_dict` is that of what was handed out here.

    `options` are those of `torch.utils.data.DataLoader`, such as `pin_memory` and `prefetch_factor`.
    """

    def __init__(self, dataset: IterableDataset, num_workers: int = 0, **options: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise ArgumentTypeError(f"dataset of type {type_name(dataset)}: must be a warpbell.torch.IterableDataset")
        if options.get("collate_fn") is not None:
            raise ArgumentError("collate_fn: batches are the dataset's own; map what the loader gives")
        if not options.get("in_order", True):
            raise ArgumentError(f"in_order {options['in_order']}: the position counts batches in their order")
        for name in ("batch_size", "sampler", "batch_sampler", "shuffle", "drop_last", "persistent_workers"):
            if options.get(name):
                raise ArgumentError(f"{name} {options[name]}: is the dataset's own, or starts workers that would not go on where it is")
        self.dataset = dataset
        self.num_workers = whole("num_workers", num_workers)
        self._options = options

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        batches = torch.utils.data.DataLoader(self.dataset, batch_size=None, num_workers=self.num_workers, **self._options)
        if self.num_workers == 0:
            return iter(batches)
        # The dataset of this process counts what the workers' copies of it read.
        return self.dataset._counted(map(self._with_records, batches))

    def _with_records(self, given: Any) -> tuple[Any, int]:
        return given, len(given.ids) if self.dataset.batch_size else 1

    def skip(self, count: int = 1) -> None:
        """Goes on behind the next `count` batches of this epoch, or records: behind one that cannot be read."""
        self.dataset.skip(count)

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where a stream was."""
        self.dataset.load_state_dict(state)
