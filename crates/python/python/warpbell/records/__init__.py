"""Records on SSDs as datasets, for NumPy and for plain bytes; `warpbell.torch` has them for torch.

`write` puts records on SSDs; `MapDataset` gives them by number, `IterableDataset` as a stream that is shuffled by seed and
epoch, shared between ranks, read ahead, and resumed. `Fixed` and `Indexed` say where records are.
"""

from __future__ import annotations

from ._datasets import Batch, IterableDataset, MapDataset, Record
from ._errors import RecordError
from ._index import Fixed, Index, Indexed, load_index, save_index
from ._order import NumberError, Order, Permutation
from ._write import write

__all__ = [
    "Batch",
    "Fixed",
    "Index",
    "Indexed",
    "IterableDataset",
    "MapDataset",
    "NumberError",
    "Order",
    "Permutation",
    "Record",
    "RecordError",
    "load_index",
    "save_index",
    "write",
]
