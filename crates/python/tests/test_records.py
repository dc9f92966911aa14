"""Datasets of records: every record once, order, ranks, resumption, layouts, failures."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import warpbell
from warpbell import records

ROWS = numpy.random.default_rng(7).integers(0, 1 << 30, (1009, 33), dtype=numpy.int32)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An SSD over a file, which any process may open, with ROWS on it from byte 512 on."""
    file = tmp_path_factory.mktemp("disk") / "disk.img"
    file.write_bytes(bytes(1 << 20))
    records.write(f"soft:file={file}", ROWS, offset=512, index=file.with_suffix(".index"), options={"allow_write": str(file)})
    return f"soft:file={file}"


def index_of(disk: str) -> str:
    return disk.removeprefix("soft:file=").replace(".img", ".index")


def stream(disk: str, **options: Any) -> records.IterableDataset:
    return records.IterableDataset(disk, index_of(disk), **options)


def ids_of(dataset: records.IterableDataset) -> list[int]:
    """One epoch, of which each record must be what was written."""
    ids: list[int] = []
    for batch in dataset:
        assert (batch.data == ROWS[batch.ids]).all()
        ids += batch.ids
    return ids


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17, 64, 65, 1000, 4097])
def test_a_permutation_has_each_number_once(count: int) -> None:
    seen = {tuple(map(records.Permutation(count, seed, epoch), range(count))) for seed in range(3) for epoch in range(3)}
    assert all(sorted(one) == list(range(count)) for one in seen)
    assert len(seen) == 9 or count < 17, "another seed or epoch is another order"


def test_a_permutation_is_the_same_everywhere() -> None:
    assert [records.Permutation(10**12, 5, 2)(number) for number in range(3)] == [361931892086, 403455859639, 23750705469]


def test_a_permutation_leaves_no_traces() -> None:
    """Where a number goes, and what follows it, is spread over all numbers."""
    count, places, followers = 64, collections.Counter[int](), collections.Counter[int]()
    for epoch in range(64 * 30):
        order = list(map(records.Permutation(count, 1, epoch), range(count)))
        places[order.index(11)] += 1
        followers[(order[1] - order[0]) % count] += 1
    # Chi-square of 63 degrees of freedom: 120 is exceeded once in 10^5 runs, and this run is always the same.
    for found, kinds in ((places, 64), (followers, 63)):
        expected = 64 * 30 / kinds
        assert sum((found[kind] - expected) ** 2 / expected for kind in range(64 - kinds, 64)) < 120


@pytest.mark.parametrize("count", [0, 1, 5, 12, 1009])
@pytest.mark.parametrize("world_size", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_have_every_record_once(count: int, world_size: int, shuffle: bool) -> None:
    for epoch in range(2):
        orders = [
            records.Order(count, shuffle=shuffle, seed=3, epoch=epoch, rank=rank, world_size=world_size) for rank in range(world_size)
        ]
        assert sorted(itertools.chain(*orders)) == list(range(count))
        sizes = [len(order) for order in orders]
        assert sizes == [len(list(order)) for order in orders] and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world_size", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"batch_size": 16, "prefetch": 1}, {"batch_size": 7, "prefetch": 9}, {"batch_size": 5000}])
def test_epochs_over_ranks(disk: str, world_size: int, options: dict[str, int]) -> None:
    epochs = []
    datasets = [stream(disk, rank=rank, world_size=world_size, seed=9, **options) for rank in range(world_size)]
    for epoch in range(2):
        found: list[int] = []
        for dataset in datasets:
            assert (dataset.epoch, dataset.position) == (epoch, 0)
            given = list(dataset)
            assert len(given) == len(dataset)
            for ids, data in given:
                assert (data == ROWS[ids]).all()
                found += ids if options else [ids]
        assert sorted(found) == list(range(len(ROWS)))
        epochs.append(found)
    assert epochs[0] != epochs[1]
    again = [stream(disk, rank=rank, world_size=world_size, seed=9, epoch=1, batch_size=32) for rank in range(world_size)]
    assert [id for dataset in again for id in ids_of(dataset)] == epochs[1]


def test_ranks_are_those_of_the_environment(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert ids_of(stream(disk, batch_size=8)) == list(records.Order(len(ROWS), rank=2, world_size=5))


@pytest.mark.parametrize("batch_size", [None, 1, 50])
def test_a_stream_resumes_at_each_point(disk: str, batch_size: int | None) -> None:
    wanted = [list(records.Order(len(ROWS), epoch=epoch, rank=1, world_size=9)) for epoch in range(2)]
    flat = [*wanted[0], *wanted[1]]
    states = []
    dataset = stream(disk, batch_size=batch_size, rank=1, world_size=9)
    for _ in range(2):
        states += [dataset.state_dict() for _ in dataset]
    for state in states[:: 1 if batch_size else 7]:
        other = pickle.loads(pickle.dumps(stream(disk, batch_size=batch_size, rank=1, world_size=9)))
        other.load_state_dict(state)
        done = state["epoch"] * len(wanted[0]) + state["position"]
        rest = []
        while other.epoch < 2:
            rest += [id for given in other for id in (given.ids if batch_size else [given.id])]
        assert rest == flat[done:]


def test_an_epoch_may_be_set_again_and_restarted(disk: str) -> None:
    dataset = stream(disk, batch_size=100)
    first = next(iter(dataset)).ids
    dataset.set_epoch(0)
    assert dataset.position == 100
    second = next(iter(dataset)).ids
    assert first + second == list(dataset.order)[:200]
    dataset.restart()
    assert next(iter(dataset)).ids == first
    dataset.set_epoch(4)
    assert (dataset.epoch, dataset.position) == (4, 0)


def test_a_newer_iterator_ends_the_one_before(disk: str) -> None:
    dataset = stream(disk, batch_size=100)
    old = iter(dataset)
    next(old)
    new = iter(dataset)
    with pytest.raises(warpbell.Error, match="^iterator: ended: "):
        next(old)
    assert len(next(new).ids) == 100 and dataset.position == 200
    last = list(itertools.islice(new, 9))[-1]
    assert len(last.ids) == 9 and dataset.position == len(ROWS)
    iter(dataset)
    with pytest.raises(warpbell.Error, match="^iterator: ended: "):
        next(new)
    assert (dataset.epoch, dataset.position) == (0, len(ROWS))


def test_batches_are_not_overwritten_by_later_ones(disk: str) -> None:
    kept = list(stream(disk, batch_size=10, prefetch=2))
    for batch in kept:
        assert (batch.data == ROWS[batch.ids]).all()
    slices = [batch.data[3:5] for batch in kept[:20]]
    ids = [batch.ids[3:5] for batch in kept[:20]]
    del kept, batch
    assert len(ids_of(stream(disk, batch_size=10))) == len(ROWS)
    for part, wanted in zip(slices, ids):
        assert (part == ROWS[wanted]).all()


def test_memory_is_used_again(ssd: warpbell.Ssd) -> None:
    index = records.Fixed(record_bytes=4096, count=1000)
    addresses = {batch.data.ctypes.data for batch in records.IterableDataset(ssd, index, batch_size=8, prefetch=2)}
    assert len(addresses) < 10


def test_records_by_number(disk: str) -> None:
    with records.MapDataset(disk, index_of(disk)) as dataset:
        assert len(dataset) == len(ROWS)
        assert (dataset[5] == ROWS[5]).all() and (dataset[-1] == ROWS[-1]).all()
        wanted = [5, 900, 6, 5, 7, 1008, 0]
        for id, row in zip(wanted, dataset.fetch(wanted), strict=True):
            assert (row == ROWS[id]).all()
        assert sum(1 for _ in dataset) == len(ROWS)
        assert dataset.fetch([]) == []


def reads_of(folder: pathlib.Path, index: records.Index, ids: list[int]) -> int:
    """How many commands it takes to read these records: a fault that spares so many does not hit."""
    for spared in itertools.count():
        plan = folder / "plan.toml"
        plan.write_text(f'[[fault]]\nkind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nafter = {spared}\n')
        try:
            with records.MapDataset(f"soft:size=1m,faults={plan}", index) as dataset:
                dataset.fetch(ids)
        except records.RecordError:
            continue
        return spared
    raise AssertionError


@pytest.mark.parametrize(
    ("record_bytes", "ids", "commands"),
    [
        (100, [0], 1),
        (100, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1),
        (100, [9, 3, 5, 4, 6, 8, 7, 0, 2, 1], 1),
        (100, [0, 5, 100], 2),
        (512, [0, 1, 2, 3], 1),
        (512, [4, 5, 6, 0, 1], 2),
        (512, [3, 2, 1], 3),
        (4096, [7, 7], 2),
        (700, [7, 7], 1),
    ],
)
def test_neighbours_are_read_by_one_command(tmp_path: pathlib.Path, record_bytes: int, ids: list[int], commands: int) -> None:
    assert reads_of(tmp_path, records.Fixed(record_bytes=record_bytes, count=200), ids) == commands


def test_records_that_end_in_the_block_before_are_neighbours(tmp_path: pathlib.Path) -> None:
    assert reads_of(tmp_path, records.Fixed(record_bytes=500, stride=512, count=200), [2, 0, 1]) == 1


def test_records_may_overlap(ssd: warpbell.Ssd) -> None:
    data = random.Random(3).randbytes(8192)
    ssd.write(0, data)
    places = [(0, 5000), (100, 10), (4000, 2000), (100, 10), (8191, 1)]
    index = records.Indexed(offsets=[offset for offset, _ in places], lengths=[length for _, length in places])
    found = records.MapDataset(ssd, index, framework="bytes").fetch(range(5))
    assert [bytes(record) for record in found] == [data[offset : offset + length] for offset, length in places]


SIZES = [0, 1, 3, 511, 512, 513, 4096, 100_000, 131_072, 300_001]


def some_records(seed: int, count: int) -> list[bytes]:
    chosen = random.Random(seed)
    return [chosen.randbytes(chosen.choice(SIZES)) for _ in range(count)]


@pytest.mark.parametrize("layout", ["stripe", "concatenate"])
@pytest.mark.parametrize("align", [1, 64, 4096])
@pytest.mark.parametrize("sizes", [["8m"], ["2m", "3m", "5m,block=4096"]])
def test_records_of_any_size_on_any_ssds(tmp_path: pathlib.Path, layout: str, align: int, sizes: list[str]) -> None:
    ssds = [warpbell.open(f"soft:size={size}") for size in sizes]
    wanted = some_records(align, 60)
    file = tmp_path / "some.index"
    written = records.write(ssds, wanted, index=file, offset=8192, align=align, layout=layout, chunk_bytes=8192)
    assert isinstance(written, records.Indexed) and all(offset % align == 0 for offset in written.offsets)
    assert records.load_index(file, len(ssds)) == written
    dataset = records.MapDataset(ssds, file, framework="bytes")
    assert [bytes(record) for record in dataset.fetch(range(60))] == wanted
    for batch in records.IterableDataset(ssds, file, batch_size=9, framework="bytes", seed=align):
        assert [bytes(record) for record in batch.data] == [wanted[id] for id in batch.ids]
    for id, record in records.IterableDataset(ssds, file):
        assert record.tobytes() == wanted[id]


def test_stripes_are_those_of_a_volume(program: warpbell.Program) -> None:
    """A kernel writes through a volume; the same bytes are records."""
    for layout in ("stripe", "concatenate"):
        ssds = [warpbell.open(f"soft:size={size}k") for size in (4, 16, 8)]
        queues = [ssd.attach() for ssd in ssds]
        with warpbell.Volume(queues, layout=layout, chunk_bytes=1024) as volume, queues[0].buffer(256) as answers:
            program.launch(volume, "volume_numbers", volume, volume.buffer(32 * 512), answers).wait(60)
            assert volume.blocks == 56
        index = records.Fixed(record_bytes=512, count=32, layout=layout, chunk_bytes=1024, dtype="uint64")
        dataset = records.MapDataset(ssds, index)
        assert [int(record[0]) for record in dataset] == [number + 1000 for number in range(32)]
        assert int(dataset.fetch([31])[0][0]) == 1031


def test_what_lies_around_stays(ssd: warpbell.Ssd) -> None:
    ssd.write(0, b"o" * 8192)
    records.write(ssd, [b"n" * 700], offset=1024)
    assert ssd.read(0, 8192) == b"o" * 1024 + b"n" * 700 + b"o" * (8192 - 1724)


def test_arrays_keep_their_type_and_shape(ssd: warpbell.Ssd) -> None:
    rows = numpy.arange(5 * 3 * 7, dtype=numpy.float64).reshape(5, 3, 7)
    index = records.write(ssd, rows[:, ::-1], align=512)
    (batch,) = records.IterableDataset(ssd, index, batch_size=5, shuffle=False)
    assert batch.data.dtype == numpy.float64 and (batch.data == rows[:, ::-1]).all()
    ragged = records.Indexed(offsets=numpy.array([0, 512]), lengths=numpy.array([112, 0]), dtype="f8", shape=(-1, 7))
    assert [record.shape for record in records.MapDataset(ssd, ragged)] == [(2, 7), (0, 7)]


def test_whole_blocks_are_not_copied(ssd: warpbell.Ssd) -> None:
    """A batch is one array over the memory that the SSD wrote to."""
    index = records.Fixed(record_bytes=1024, count=64, offset=512)
    for batch in records.IterableDataset(ssd, index, batch_size=16):
        assert batch.data.shape == (16, 1024) and batch.data.base is not None and batch.data.ctypes.data % 4096 == 0


def faulty(folder: pathlib.Path, text: str) -> str:
    plan = folder / "plan.toml"
    plan.write_text(f"[[fault]]\n{text}\n")
    return f"soft:size=1m,faults={plan}"


@pytest.mark.parametrize("record_bytes", [100, 512, 3000])
def test_a_record_that_cannot_be_read_is_named(tmp_path: pathlib.Path, record_bytes: int) -> None:
    bad = 40
    name = faulty(tmp_path, f'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [{bad}, {bad}]')
    index = records.Fixed(record_bytes=record_bytes, count=300)
    hit = bad * 512 // record_bytes
    with warpbell.open(name) as ssd:
        dataset = records.IterableDataset(ssd, index, batch_size=300, shuffle=False)
        with pytest.raises(records.RecordError, match=f"^record {hit}, {record_bytes} bytes at {hit * record_bytes} of soft:.*Unrecovered") as caught:
            next(iter(dataset))
        error = caught.value
        assert (error.record, error.offset, error.ssd, error.status is not None) == (hit, hit * record_bytes, name, True)
        by_number = records.MapDataset(ssd, index)
        with pytest.raises(OSError, match=f"^record {hit}, "):
            by_number[hit]
        assert by_number[hit - 20].tobytes() == bytes(record_bytes)


def test_a_failure_that_passes_is_told_and_not_hidden(tmp_path: pathlib.Path) -> None:
    name = faulty(tmp_path, 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\ncount = 1')
    with records.MapDataset(name, records.Fixed(record_bytes=100, count=30)) as dataset:
        with pytest.raises(warpbell.CommandError, match="each of its 30 parts could be read alone afterwards$"):
            dataset.fetch(range(30))
        assert len(dataset.fetch(range(30))) == 30


def test_a_stream_goes_on_behind_a_failure(tmp_path: pathlib.Path) -> None:
    """Nothing that was read ahead is lost or counted."""
    name = faulty(tmp_path, 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nafter = 5\ncount = 2')
    with warpbell.open(name) as ssd:
        dataset = records.IterableDataset(ssd, records.Fixed(record_bytes=512, count=64), batch_size=1)
        ids: list[int] = []
        with pytest.raises(records.RecordError):
            for batch in dataset:
                ids += batch.ids
        assert dataset.position == len(ids)
        wanted = list(dataset.order)
        ids += [id for batch in dataset for id in batch.ids]
        assert ids == wanted


def test_eight_threads_have_their_own_records(disk: str) -> None:
    with records.MapDataset(disk, index_of(disk)) as dataset, concurrent.futures.ThreadPoolExecutor(8) as threads:

        def work(seed: int) -> int:
            chosen = random.Random(seed)
            for _ in range(60):
                ids = [chosen.randrange(len(ROWS)) for _ in range(chosen.randrange(1, 40))]
                assert all((row == ROWS[id]).all() for id, row in zip(ids, dataset.fetch(ids), strict=True))
            return seed

        assert list(threads.map(work, range(8))) == list(range(8))


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


def in_child(work: Callable[[], bool]) -> bool:
    """What the work gives in a child of fork, whose end is waited for, but not forever."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


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


def test_memory_of_one_process_is_not_taken_for_another(ssd: warpbell.Ssd) -> None:
    dataset = records.MapDataset(ssd, records.Fixed(record_bytes=512, count=4))
    line = "^ssd soft:size=64m: lies in the memory of one process"
    with pytest.raises(warpbell.ArgumentError, match=line):
        pickle.dumps(dataset)

    def work() -> bool:
        try:
            dataset[0]
        except warpbell.ArgumentError as error:
            return re.search(line, str(error)) is not None
        return False

    assert in_child(work)


def test_everything_works_without_numpy(disk: str) -> None:
    program = """
    import sys
    sys.modules["numpy"] = None
    import warpbell
    from warpbell import records
    index = records.load_index(sys.argv[2])
    seen = []
    for batch in records.IterableDataset(sys.argv[1], index, batch_size=64, framework="bytes"):
        assert all(len(record) == 132 for record in batch.data)
        seen += batch.ids
    assert sorted(seen) == list(range(1009))
    try:
        records.MapDataset(sys.argv[1], index)
    except warpbell.MissingError as error:
        print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), disk, index_of(disk)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, 'numpy is not available: pip install numpy, or take framework="bytes"\n'), done.stderr
