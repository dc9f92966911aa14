"""Datasets of records in several processes, and the SSDs that they open and close."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
from typing import Any

import numpy
import pytest

import warpbell
from on_disk import FIXED, ROWS, in_child, index_of, refused_in_child, stream
from warpbell import records, safetensors

CHILD = """
import json, os, pathlib, sys
from warpbell import records

disk, index, folder, rank, stop = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
log, saved = folder / f"ids-{rank}", folder / f"state-{rank}"
dataset = records.IterableDataset(disk, index, batch_size=6, rank=rank, world_size=2, prefetch=3)
if saved.exists():
    state = json.loads(saved.read_text())
    dataset.load_state_dict(state["stream"])
    os.truncate(log, state["log"])
with open(log, "a") as out:
    while dataset.epoch < 2:
        epoch = dataset.epoch
        for batch in dataset:
            out.writelines(f"{epoch} {id}\\n" for id in batch.ids)
            out.flush()
            stop -= 1
            if stop == 0:
                os.kill(os.getpid(), 9)
            new = folder / f"new-{rank}"
            new.write_text(json.dumps({"stream": dataset.state_dict(), "log": out.tell()}))
            os.replace(new, saved)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_processes_resume(disk: str, tmp_path: pathlib.Path, seed: int) -> None:
    """Processes that die at any batch: what they handed out is every record once in each epoch."""
    chosen = random.Random(seed)
    for rank in range(2):
        for attempt in itertools.count():
            stop = chosen.randrange(1, 80) if attempt < 3 else 0
            words = [sys.executable, "-c", CHILD, disk, index_of(disk), str(tmp_path), str(rank), str(stop)]
            ended = subprocess.run(words, timeout=120).returncode
            assert ended in (0, -signal.SIGKILL)
            if ended == 0:
                break
    lines = [line for rank in range(2) for line in (tmp_path / f"ids-{rank}").read_text().splitlines()]
    assert sorted(map(tuple, (map(int, line.split()) for line in lines))) == [(epoch, id) for epoch in range(2) for id in range(len(ROWS))]


def test_children_open_ssds_for_themselves(disk: str) -> None:
    dataset = records.MapDataset(disk, index_of(disk))
    assert (dataset[3] == ROWS[3]).all()
    alive = [dataset[number] for number in range(3)]

    def work() -> bool:
        right = all((dataset[number] == ROWS[number]).all() for number in (3, 900)) and (alive[1] == ROWS[1]).all()
        alive.clear()
        return bool(right)

    assert in_child(work)
    assert (dataset[4] == ROWS[4]).all() and (alive[1] == ROWS[1]).all()


def two_namespaces(folder: pathlib.Path) -> str:
    """An SSD with a namespace of `a` and one of `b`."""
    for letter in "ab":
        (folder / f"{letter}.img").write_bytes(letter.encode() * (1 << 20))
    return f"soft:file={folder}/a.img,file={folder}/b.img"


@pytest.mark.parametrize("options", [None, {}, {"depth": 8}, {"namespace": 2}])
def test_other_processes_have_the_namespace_that_was_open(tmp_path: pathlib.Path, options: dict[str, Any] | None) -> None:
    name = two_namespaces(tmp_path)
    with warpbell.open(name, namespace=2) as ssd:
        assert ssd.namespace == 2
        dataset = records.MapDataset(ssd, records.Fixed(record_bytes=512, count=4), framework="bytes", options=options)
        assert bytes(dataset[0]) == b"b" * 512
        if options is None:
            line = f"^ssd {name}: was given open, and how it was opened is not known: options="
            assert refused_in_child(lambda: dataset[0], line)
            with pytest.raises(warpbell.ArgumentError, match=line):
                pickle.dumps(dataset)
            return
        assert in_child(lambda: bytes(dataset[0]) == b"b" * 512)
        pickled = pickle.dumps(dataset)
    with pickle.loads(pickled) as copy:
        assert bytes(copy[0]) == b"b" * 512


def test_a_name_has_the_namespace_of_its_options(tmp_path: pathlib.Path) -> None:
    index = records.Fixed(record_bytes=512, count=4)
    with records.MapDataset(two_namespaces(tmp_path), index, framework="bytes", options={"namespace": 2}) as dataset:
        assert bytes(dataset[0]) == b"b" * 512
        assert in_child(lambda: bytes(dataset[0]) == b"b" * 512)
        assert bytes(pickle.loads(pickle.dumps(dataset))[0]) == b"b" * 512


def test_each_ssd_is_there_once(ssd: warpbell.Ssd, tmp_path: pathlib.Path) -> None:
    name = two_namespaces(tmp_path)
    rows = numpy.arange(1 << 16, dtype="u4").reshape(-1, 1024)
    with warpbell.open(name) as first, warpbell.open(name) as again, warpbell.open(name, namespace=2) as second:
        for twice in ([ssd, ssd], [name, name], [first, again], [first, name]):
            with pytest.raises(warpbell.ArgumentError, match="^ssds soft:.* is there twice; each SSD once$"):
                records.MapDataset(twice, FIXED)[0]
            with pytest.raises(warpbell.ArgumentError, match="^ssds soft:.* is there twice; each SSD once$"):
                records.write(twice, rows)
            with pytest.raises(warpbell.ArgumentError, match="^ssds soft:.* is there twice; each SSD once$"):
                safetensors.save(twice, {"rows": rows})
        assert ssd.read(0, 1 << 20) == bytes(1 << 20), "nothing was written"
        spread = records.Fixed(record_bytes=512, count=8, layout="concatenate", chunk_bytes=1 << 20)
        assert bytes(records.MapDataset([first, second], spread, framework="bytes")[0]) == b"a" * 512
    others = [warpbell.open("soft:size=1m") for _ in range(2)]
    index = records.write(others, rows, chunk_bytes=4096)
    assert all((record == row).all() for record, row in zip(records.MapDataset(others, index), rows, strict=True))


def test_a_first_use_that_fails_leaves_nothing_open(tmp_path: pathlib.Path) -> None:
    for letter in "ab":
        (tmp_path / f"{letter}.img").write_bytes(bytes(1 << 20))
    names = [f"soft:file={tmp_path}/{letter}.img" for letter in "ab"]
    odd = records.Fixed(record_bytes=512, count=4, chunk_bytes=100)
    dataset = records.MapDataset(names, odd, framework="bytes")
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        with pytest.raises(warpbell.ArgumentError, match="^chunk_bytes 100: "):
            dataset[0]
        assert len(os.listdir("/proc/self/task")) == before, "threads of SSDs are left"
    (tmp_path / "b.img").rename(tmp_path / "c.img")
    files = [str(tmp_path / f"{letter}.img") for letter in "ab"]
    dataset = records.MapDataset(names, FIXED, framework="bytes", options={"allow_write": files})
    with pytest.raises(warpbell.Error, match="b.img"):
        dataset[0]
    with warpbell.open(names[0], allow_write=files[0]):
        pass
    (tmp_path / "c.img").rename(tmp_path / "b.img")
    with dataset:
        assert bytes(dataset[0]) == bytes(512), "the next use opens them"


def test_a_closed_dataset_is_not_opened_again(ssd: warpbell.Ssd, disk: str) -> None:
    line = "^ssds soft:.*: what reads from them here was closed before$"
    for given, index in ((disk, index_of(disk)), (ssd, FIXED)):
        dataset, opened = records.MapDataset(given, index), records.IterableDataset(given, index, batch_size=2)
        batches = iter(opened)
        assert len(dataset[1]) and len(next(batches).ids) == 2
        for one in (dataset, opened):
            one.close()
            one.close()
        for call in (
            lambda: dataset[1],
            lambda: dataset.fetch([]),
            lambda: next(iter(dataset)),
            dataset.__enter__,
            lambda: next(batches),
            lambda: next(iter(opened)),
        ):
            with pytest.raises(warpbell.ClosedError, match=line):
                call()
        assert len(dataset) and not ssd.closed, "only what was opened here is closed"
    closed = pickle.loads(pickle.dumps(records.MapDataset(disk, index_of(disk))))
    closed.close()
    with pytest.raises(warpbell.ClosedError, match=line):
        pickle.loads(pickle.dumps(closed))[0]

    def work() -> bool:
        try:
            closed[0]
        except warpbell.ClosedError:
            return True
        return False

    assert in_child(work)


def test_a_child_leaves_reads_in_flight_to_its_parent(disk: str, capfd: pytest.CaptureFixture[str]) -> None:
    batches = iter(stream(disk, batch_size=10, prefetch=8))
    held = [batches]
    next(batches)
    del batches

    def work() -> bool:
        held.clear()
        gc.collect()
        return True

    assert in_child(work)
    assert len(next(held[0]).ids) == 10 and capfd.readouterr().err == ""


def test_memory_of_one_process_is_not_taken_for_another(ssd: warpbell.Ssd) -> None:
    dataset = records.MapDataset(ssd, records.Fixed(record_bytes=512, count=4))
    line = "^ssd soft:size=64m: lies in the memory of one process"
    with pytest.raises(warpbell.ArgumentError, match=line):
        pickle.dumps(dataset)
    assert refused_in_child(lambda: dataset[0], line)
