"""Records on SSDs as datasets of torch: `warpbell.records`, with tensors over the memory that the SSDs wrote to.

Worker processes open SSDs for themselves, by name. Datasets make batches on their own: `DataLoader(dataset,
batch_size=None)`, or `Loader(dataset)`, whose position can be saved with workers, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

try:
    import torch
    import torch.utils.data
except ImportError as error:
    raise ImportError(f"warpbell.torch needs torch, which cannot be imported: {error}; warpbell.records is the same for NumPy") from None

from . import records
from ._checks import whole
from .errors import ArgumentError
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
        try:
            self._made(self._shaper.empty())
        except TypeError as error:
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
    order as without workers.
    """

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            return super().__iter__()
        return (given for given, _ in self._share(worker.id, worker.num_workers))


class Loader:
    """An `IterableDataset` through worker processes: its `state_dict` is that of what was handed out here.

    `options` are those of `torch.utils.data.DataLoader`, such as `pin_memory` and `prefetch_factor`.
    """

    def __init__(self, dataset: IterableDataset, num_workers: int = 0, **options: Any) -> None:
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
        return self.dataset.count((given, self._records_of(given)) for given in batches)

    def _records_of(self, given: Any) -> int:
        return len(given.ids) if self.dataset.batch_size else 1

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where a stream was."""
        self.dataset.load_state_dict(state)
