"""Datasets of torch: tensors without copies, workers, resumption. Skipped without torch."""

from __future__ import annotations

import importlib.util
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy
import pytest

import warpbell
from conftest import ROOT
from warpbell import records, safetensors

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed: scripts/lib/check-torch runs these tests with Debian's", allow_module_level=True)

import torch
from torch.utils.data import DataLoader

from warpbell import torch as warpbell_torch

ROWS = numpy.random.default_rng(7).integers(0, 1 << 30, (1009, 33), dtype=numpy.int32)
INDEX = records.Fixed(record_bytes=132, count=1009, dtype="int32")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("disk") / "disk.img"
    file.write_bytes(bytes(1 << 20))
    records.write(f"soft:file={file}", ROWS, options={"allow_write": str(file)})
    return f"soft:file={file}"


def stream(disk: str, **options: Any) -> warpbell_torch.IterableDataset:
    return warpbell_torch.IterableDataset(disk, INDEX, **options)


def ids_of(batches: Any) -> list[int]:
    """The ids of batches, of which each must be what was written."""
    ids: list[int] = []
    for batch in batches:
        assert torch.equal(batch.data, torch.from_numpy(ROWS[batch.ids.numpy()]))
        ids += batch.ids.tolist()
    return ids


def test_tensors_are_the_memory_that_the_ssd_wrote_to(ssd: warpbell.Ssd) -> None:
    index = records.Fixed(record_bytes=4096, count=8, dtype="float32", shape=(32, 32))
    (batch,) = warpbell_torch.IterableDataset(ssd, index, batch_size=8)
    assert batch.data.shape == (8, 32, 32) and batch.data.dtype == torch.float32 and batch.data.data_ptr() % 4096 == 0
    assert batch.ids.dtype == torch.int64


@pytest.mark.parametrize(("workers", "way"), [(0, None), (2, "fork"), (1, "spawn")])
def test_map_datasets_in_workers(disk: str, workers: int, way: str | None) -> None:
    dataset = warpbell_torch.MapDataset(disk, INDEX)
    assert torch.equal(dataset[5], torch.from_numpy(ROWS[5]))
    loader = DataLoader(dataset, batch_size=100, num_workers=workers, multiprocessing_context=way)
    assert torch.equal(torch.cat(list(loader)), torch.from_numpy(ROWS))
    order = records.Order(len(ROWS), rank=1, world_size=2)
    sampled = DataLoader(dataset, batch_size=100, sampler=order, num_workers=workers, multiprocessing_context=way)
    assert torch.equal(torch.cat(list(sampled)), torch.from_numpy(ROWS[list(order)]))


@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("batch_size", [7, 500])
@pytest.mark.filterwarnings("ignore:This DataLoader will create 3")
def test_workers_keep_the_order(disk: str, workers: int, batch_size: int) -> None:
    dataset = pickle.loads(pickle.dumps(stream(disk, batch_size=batch_size, rank=1, world_size=2)))
    loader = warpbell_torch.Loader(dataset, workers)
    for epoch in range(2):
        assert dataset.epoch == epoch
        assert ids_of(loader) == list(records.Order(len(ROWS), epoch=epoch, rank=1, world_size=2))
    dataset.set_epoch(0)
    plain = DataLoader(dataset, batch_size=None, num_workers=workers)
    assert ids_of(plain) == list(records.Order(len(ROWS), rank=1, world_size=2))


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_resume(disk: str, workers: int) -> None:
    wanted = list(records.Order(len(ROWS)))
    dataset = stream(disk, batch_size=100)
    loader = warpbell_torch.Loader(dataset, workers)
    states, seen = [], 0
    for batch in loader:
        seen += len(batch.ids)
        assert loader.state_dict()["position"] == seen
        states.append(loader.state_dict())
    for state in states[::3]:
        other = warpbell_torch.Loader(stream(disk, batch_size=100), 2 - workers)
        other.load_state_dict(state)
        assert ids_of(other) == wanted[state["position"] :]


def test_records_without_batches(disk: str) -> None:
    for workers in (0, 2):
        loader = warpbell_torch.Loader(stream(disk, rank=3, world_size=8), workers)
        ids = []
        for id, data in loader:
            assert torch.equal(data, torch.from_numpy(ROWS[id]))
            ids.append(id)
        assert ids == list(records.Order(len(ROWS), rank=3, world_size=8))


def test_what_torch_cannot_have_is_refused(ssd: warpbell.Ssd, disk: str) -> None:
    for call, line in (
        (lambda: warpbell_torch.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, dtype="M8[s]")), "dtype M8\\[s\\]: torch has no such type"),
        (lambda: warpbell_torch.MapDataset(ssd, INDEX, framework="numpy"), "framework numpy: tensors are torch's"),
        (lambda: warpbell_torch.Loader(stream(disk), batch_size=4), "batch_size 4: is the dataset's own"),
        (lambda: warpbell_torch.Loader(stream(disk), persistent_workers=True), "persistent_workers True: "),
        (lambda: warpbell_torch.Loader(stream(disk), -1), "num_workers -1: must be from 0"),
        (lambda: warpbell_torch.Loader(stream(disk), 2, in_order=False), "in_order False: the position counts batches in their order"),
        (lambda: warpbell_torch.Loader(stream(disk), 0, collate_fn=list), "collate_fn: batches are the dataset's own"),
        (lambda: warpbell_torch.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, dtype=">i4")), "dtype >i4: torch has no such order of bytes"),
    ):
        with pytest.raises(warpbell.ArgumentError, match=f"^{line}"):
            call()
    for other in (warpbell_torch.MapDataset(disk, INDEX), records.IterableDataset(disk, INDEX), [1]):
        for workers in (0, 2):
            with pytest.raises(warpbell.ArgumentTypeError, match="^dataset of type .*: must be a warpbell.torch.IterableDataset$"):
                warpbell_torch.Loader(other, workers)


def test_each_epoch_of_plain_workers_needs_its_number(disk: str) -> None:
    dataset = stream(disk, batch_size=100)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    epochs = []
    for epoch in (0, 0, 1):
        dataset.set_epoch(epoch)
        epochs.append(ids_of(loader))
        assert epochs[-1] == list(records.Order(len(ROWS), epoch=epoch))
    assert epochs[0] == epochs[1] != epochs[2]


def test_persistent_workers_are_refused_a_second_epoch(disk: str) -> None:
    dataset = stream(disk, batch_size=100)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    assert ids_of(loader) == list(records.Order(len(ROWS)))
    dataset.set_epoch(1)
    with pytest.raises(warpbell.Error, match="iterator: this worker's copy of the dataset had one before.*persistent_workers=False"):
        ids_of(loader)


def with_a_bad_record(folder: pathlib.Path) -> str:
    """An SSD whose block 40 cannot be read."""
    plan, file = folder / "plan.toml", folder / "disk.img"
    file.write_bytes(bytes(1 << 20))
    plan.write_text('[[fault]]\nkind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [40, 40]\n')
    return f"soft:file={file},faults={plan}"


@pytest.mark.parametrize("batch_size", [4, None])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("plain", [True, False])
def test_a_bad_record_costs_its_batch_and_nothing_else(tmp_path: pathlib.Path, batch_size: int | None, workers: int, plain: bool) -> None:
    index = records.Fixed(record_bytes=512, count=64)
    dataset = warpbell_torch.IterableDataset(with_a_bad_record(tmp_path), index, batch_size=batch_size, seed=3)
    order, size = list(dataset.order), batch_size or 1
    hit = order.index(40) - order.index(40) % size
    loader = DataLoader(dataset, batch_size=None, num_workers=workers) if plain else warpbell_torch.Loader(dataset, workers)
    batches, ids, errors = iter(loader), [], []
    while True:
        try:
            given = next(batches)
        except StopIteration:
            break
        except records.RecordError as error:
            errors.append(error)
            assert workers and plain or dataset.position == hit, "the position stays before what failed"
        else:
            ids += given.ids.tolist() if batch_size else [given.id]
    assert ids == order[:hit] + order[hit + size :] and len(errors) == 1
    assert (errors[0].record, errors[0].offset) == ((None, None) if workers else (40, 20480))
    assert "record 40, 512 bytes at 20480 of soft:" in str(errors[0])
    assert (dataset.epoch, dataset.position) == ((0, 0) if workers and plain else (1, 0))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_tries_again_or_skips(tmp_path: pathlib.Path, workers: int) -> None:
    index = records.Fixed(record_bytes=512, count=64)
    dataset = warpbell_torch.IterableDataset(with_a_bad_record(tmp_path), index, batch_size=4, shuffle=False)
    loader = warpbell_torch.Loader(dataset, workers)
    ids: list[int] = []
    for _ in range(2):
        with pytest.raises(records.RecordError, match="record 40, "):
            for batch in loader:
                ids += batch.ids.tolist()
        assert loader.state_dict()["position"] == 40
    loader.skip()
    other = warpbell_torch.Loader(warpbell_torch.IterableDataset(with_a_bad_record(tmp_path), index, batch_size=4, shuffle=False), workers)
    other.load_state_dict(loader.state_dict())
    for batch in other:
        ids += batch.ids.tolist()
    assert ids == [*range(40), *range(44, 64)]


def test_tensors_are_written(ssd: warpbell.Ssd) -> None:
    rows = torch.arange(40, dtype=torch.float32).reshape(10, 4)
    for source, wanted in (
        (rows, rows),
        (rows.t().contiguous().t(), rows),
        (torch.nn.Parameter(rows), rows),
        (torch.arange(10), torch.arange(10)),
        (torch.tensor([1 + 2j, 3 - 4j]).conj(), torch.tensor([1 - 2j, 3 + 4j])),
    ):
        index = warpbell_torch.write(ssd, source)
        (batch,) = warpbell_torch.IterableDataset(ssd, index, batch_size=len(wanted), shuffle=False)
        assert batch.data.dtype == wanted.dtype and torch.equal(batch.data, wanted)
    index = warpbell_torch.write(ssd, list(rows), record_bytes=16, dtype="float32")
    assert torch.equal(torch.stack(warpbell_torch.MapDataset(ssd, index).fetch(range(10))), rows)
    ragged = warpbell_torch.write(ssd, [rows[0], rows[0, :2]], dtype="float32")
    assert torch.equal(warpbell_torch.MapDataset(ssd, ragged)[1], rows[0, :2])
    places = records.Indexed(offsets=torch.tensor([0, 16]), lengths=torch.tensor([16, 8]), dtype="float32")
    assert places == ragged
    before = ssd.read(0, 4096)
    for wrong, line in (
        (rows.to(torch.bfloat16), "tensor of torch.bfloat16: NumPy has no such array: "),
        (torch.eye(3).to_sparse(), "tensor of torch.float32: NumPy has no such array: "),
        (torch.ones(3, device="meta"), "tensor on meta: must lie in memory of the host"),
        (torch.tensor(5), "source of type numpy.ndarray: is one number"),
    ):
        with pytest.raises(warpbell.ArgumentError, match=f"^{line}"):
            warpbell_torch.write(ssd, wrong)
    with pytest.raises(warpbell.ArgumentError, match="^offsets: each must be from 0"):
        records.Indexed(offsets=torch.tensor([-1]), lengths=[1])
    assert ssd.read(0, 4096) == before


def test_a_record_that_cannot_be_read_is_named_from_a_worker(tmp_path: pathlib.Path) -> None:
    dataset = warpbell_torch.MapDataset(with_a_bad_record(tmp_path), records.Fixed(record_bytes=512, count=64))
    with pytest.raises(records.RecordError, match="record 40, 512 bytes at 20480 of soft:") as caught:
        list(DataLoader(dataset, batch_size=8, num_workers=1))
    error = caught.value
    assert (error.record, error.ssd, error.offset, error.status) == (None, None, None, None), "torch passes on the text alone"


def test_safetensors_of_torch(ssd: warpbell.Ssd) -> None:
    wanted = {
        "half": torch.arange(30, dtype=torch.float16).reshape(2, 3, 5),
        "brain": torch.arange(7, dtype=torch.float32).to(torch.bfloat16),
        "turned": torch.arange(6, dtype=torch.int64).reshape(2, 3).t(),
        "one": torch.tensor(True),
        "none": torch.empty((0, 3)),
    }
    safetensors.save(ssd, wanted)
    loaded = safetensors.open(ssd).load_all("torch")
    for name, tensor in wanted.items():
        assert (loaded[name].dtype, loaded[name].shape) == (tensor.dtype, tensor.shape) and torch.equal(loaded[name], tensor)
    taken = torch.from_dlpack(safetensors.open(ssd).load("half", "dlpack"))
    assert torch.equal(taken, wanted["half"])


def test_tensors_that_only_look_so_are_saved_or_refused(ssd: warpbell.Ssd) -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)
    safetensors.save(ssd, {"conj": numbers.conj(), "negative": numbers.conj().imag})
    loaded = safetensors.open(ssd).load_all("torch")
    assert loaded["conj"].tolist() == [1 - 2j, 3 + 4j] and loaded["negative"].tolist() == [-2, 4]
    for wrong in (torch.eye(3).to_sparse(), torch.ones(3, device="meta")):
        with pytest.raises(warpbell.ArgumentError, match="^tensor 'a': on (cpu|meta), of layout torch.*: must be dense, and have data"):
            safetensors.save(ssd, {"a": wrong})


def test_a_kind_that_this_torch_does_not_have_is_refused(ssd: warpbell.Ssd) -> None:
    if hasattr(torch, "float8_e8m0fnu"):
        pytest.skip("this torch has all kinds")
    head = b'{"a":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4]}}'
    data = len(head).to_bytes(8, "little") + head + bytes(4)
    ssd.write(0, data + bytes(-len(data) % 512))
    with pytest.raises(warpbell.ArgumentError, match=f"^dtype F8_E8M0: torch {torch.__version__} has no such type"):
        safetensors.open(ssd).load("a", "torch")
    assert safetensors.open(ssd).load("a").shape == (4,)


def test_the_documentation_runs(tmp_path: pathlib.Path) -> None:
    """The blocks `python torch` of the page, which need torch."""
    page = (ROOT / "docs/datasets.md").read_text()
    blocks = re.findall(r"^```python torch\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert blocks
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_torch_the_import_says_so() -> None:
    program = "import sys; sys.modules['torch'] = None\ntry:\n    import warpbell.torch\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("warpbell.torch needs torch, which cannot be imported: "), done.stderr
