"""Datasets of records: every record once, order, ranks, resumption, layouts."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import pathlib
import pickle
import random
import subprocess
import sys
import textwrap

import numpy
import pytest

import warpbell
from on_disk import ROWS, ids_of, index_of, stream
from warpbell import records


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


@pytest.mark.parametrize("dtype", ["i8", ">f4", "?", "M8[s]", "S5", "c8"])
def test_numbers_are_records(ssd: warpbell.Ssd, dtype: str) -> None:
    """An array of one dimension has a record in each number, of its type."""
    numbers = numpy.arange(11).astype("i8").view("M8[s]") if dtype == "M8[s]" else numpy.arange(11).astype(dtype)
    index = records.write(ssd, numbers)
    assert isinstance(index, records.Fixed) and (index.count, index.record_bytes, index.shape) == (11, numbers.itemsize, ())
    (batch,) = records.IterableDataset(ssd, index, batch_size=11, shuffle=False)
    assert batch.data.dtype == numbers.dtype and batch.data.shape == (11,) and (batch.data == numbers).all()
    assert records.MapDataset(ssd, index)[3] == numbers[3]
    rows = records.write(ssd, numbers[:10].reshape(5, 2))
    assert (records.MapDataset(ssd, rows)[4] == numbers[8:10]).all()


def test_an_array_of_no_rows_is_an_index_of_none(ssd: warpbell.Ssd) -> None:
    index = records.write(ssd, numpy.zeros((0, 4), "i4"))
    assert isinstance(index, records.Fixed) and (index.count, index.record_bytes, index.dtype) == (0, 16, "<i4")
    assert list(records.IterableDataset(ssd, index, batch_size=2)) == []


def test_whole_blocks_are_not_copied(ssd: warpbell.Ssd) -> None:
    """A batch is one array over the memory that the SSD wrote to."""
    index = records.Fixed(record_bytes=1024, count=64, offset=512)
    for batch in records.IterableDataset(ssd, index, batch_size=16):
        assert batch.data.shape == (16, 1024) and batch.data.base is not None and batch.data.ctypes.data % 4096 == 0


def test_eight_threads_have_their_own_records(disk: str) -> None:
    with records.MapDataset(disk, index_of(disk)) as dataset, concurrent.futures.ThreadPoolExecutor(8) as threads:

        def work(seed: int) -> int:
            chosen = random.Random(seed)
            for _ in range(60):
                ids = [chosen.randrange(len(ROWS)) for _ in range(chosen.randrange(1, 40))]
                assert all((row == ROWS[id]).all() for id, row in zip(ids, dataset.fetch(ids), strict=True))
            return seed

        assert list(threads.map(work, range(8))) == list(range(8))


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
