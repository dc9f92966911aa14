"""A rank of a training job that reads records: `torchrun --nproc-per-node 2 torchrun_records.py FOLDER [RANK:BATCHES]`.

FOLDER has disk-0.img and disk-1.img, which are one striped range of bytes, and records.index. In each of two epochs all
ranks gather the ids of their records, which must be every record exactly once, in another order than the epoch before.
What was read is kept in FOLDER by rank, with the state of the stream, so that ranks which are started again go on. With
RANK:BATCHES, that rank kills itself in its first life after so many batches.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
from typing import Any

import torch.distributed as dist

from warpbell import torch as warpbell_torch

EPOCHS = 2
BATCH = 16
WORKERS = 1


def main() -> None:
    dist.init_process_group("gloo")
    folder = pathlib.Path(sys.argv[1])
    victim, batches = map(int, sys.argv[2].split(":")) if len(sys.argv) > 2 else (-1, 0)
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    left = batches if victim == dist.get_rank() and first_life else -1
    names = [f"soft:file={folder}/disk-{number}.img" for number in range(2)]
    dataset = warpbell_torch.IterableDataset(names, folder / "records.index", batch_size=BATCH, seed=11)
    loader = warpbell_torch.Loader(dataset, WORKERS)
    saved = folder / f"rank-{dist.get_rank()}.json"
    ids = resume(loader, saved)
    print(f"rank {dist.get_rank()}: begins at epoch {dataset.epoch}, record {dataset.position}", flush=True)
    while dataset.epoch < EPOCHS:
        read_epoch(loader, ids, saved, left)
        left = -1
    judge(gathered(ids), dataset.index.count)
    dist.destroy_process_group()


def resume(loader: warpbell_torch.Loader, saved: pathlib.Path) -> list[list[int]]:
    """The ids of each epoch that were read in an earlier life; the stream goes on behind them."""
    if not saved.exists():
        return [[] for _ in range(EPOCHS)]
    state = json.loads(saved.read_text())
    loader.load_state_dict(state["stream"])
    ids: list[list[int]] = state["ids"]
    return ids


def read_epoch(loader: warpbell_torch.Loader, ids: list[list[int]], saved: pathlib.Path, left: int) -> None:
    """Reads what is left of an epoch. The work of a batch and the state behind it are kept as one."""
    epoch = loader.dataset.epoch
    for batch in loader:
        assert (batch.data[:, 0] == batch.ids).all(), "a record begins with its id"
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        ids[epoch] += batch.ids.tolist()
        new = saved.with_suffix(".new")
        new.write_text(json.dumps({"stream": loader.state_dict(), "ids": ids}))
        os.replace(new, saved)


def gathered(ids: list[list[int]]) -> list[list[int]]:
    """The ids of all ranks, by epoch."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, ids)
    return [[id for rank in found for id in rank[epoch]] for epoch in range(EPOCHS)]


def judge(epochs: list[list[int]], count: int) -> None:
    for epoch, found in enumerate(epochs):
        assert len(found) == count and sorted(found) == list(range(count)), f"epoch {epoch}: {len(found)} ids of {count} records"
    assert epochs[0] != epochs[1], "both epochs have the same order"
    print(f"rank {dist.get_rank()}: {EPOCHS} epochs have each of {count} records exactly once", flush=True)


if __name__ == "__main__":
    main()
