"""Records that cannot be read: what is told, and how streams go on."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import pytest

import warpbell
from on_disk import faulty
from warpbell import records


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


BAD_BLOCK = 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [40, 40]'


def given_by(batches: Any, batch_size: int | None) -> tuple[list[int], list[Any]]:
    """What an iterator gives that is asked for more behind each error: ids and numbers of records that could not be read."""
    ids: list[int] = []
    failed = []
    while True:
        try:
            given = next(batches)
        except StopIteration:
            return ids, failed
        except records.RecordError as error:
            failed.append(error.record)
        else:
            ids += given.ids if batch_size else [given.id]


@pytest.mark.parametrize("record_bytes", [512, 100])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_iterator_goes_on_behind_a_bad_record(tmp_path: pathlib.Path, record_bytes: int, batch_size: int | None, shuffle: bool) -> None:
    index = records.Fixed(record_bytes=record_bytes, count=64 * 512 // record_bytes)
    bad = {id for id in range(index.count) if id * record_bytes < 41 * 512 and (id + 1) * record_bytes > 40 * 512}
    with warpbell.open(faulty(tmp_path, BAD_BLOCK)) as ssd:
        dataset = records.IterableDataset(ssd, index, batch_size=batch_size, shuffle=shuffle, seed=2)
        order, size = list(dataset.order), batch_size or 1
        batches = [order[at : at + size] for at in range(0, len(order), size)]
        ids, failed = given_by(iter(dataset), batch_size)
        assert ids == [id for batch in batches if not bad & set(batch) for id in batch]
        assert len(failed) == sum(bool(bad & set(batch)) for batch in batches) and set(failed) <= bad
        assert (dataset.epoch, dataset.position) == (1, 0)


def test_a_bad_record_is_tried_again_or_skipped(tmp_path: pathlib.Path) -> None:
    with warpbell.open(faulty(tmp_path, BAD_BLOCK)) as ssd:
        dataset = records.IterableDataset(ssd, records.Fixed(record_bytes=512, count=64), batch_size=4, shuffle=False)
        ids: list[int] = []
        for _ in range(3):
            with pytest.raises(records.RecordError, match="^record 40, "):
                for batch in dataset:
                    ids += batch.ids
            assert dataset.position == 40 and dataset.state_dict()["position"] == 40
        dataset.skip()
        assert dataset.position == 44
        ids += [id for batch in dataset for id in batch.ids]
        assert ids == [*range(40), *range(44, 64)] and dataset.epoch == 1
        dataset.skip(15)
        assert dataset.position == 60
        dataset.skip(9)
        assert dataset.position == 64 and list(dataset) == [] and (dataset.epoch, dataset.position) == (2, 0)
        singly = records.IterableDataset(ssd, records.Fixed(record_bytes=512, count=64), shuffle=False)
        batches = iter(singly)
        assert [next(batches).id for _ in range(40)] == list(range(40))
        with pytest.raises(records.RecordError, match="^record 40, "):
            next(batches)
        assert singly.position == 40
        singly.skip()
        assert [record.id for record in singly] == list(range(41, 64))


def test_another_failure_ends_an_iterator_and_not_the_stream(tmp_path: pathlib.Path) -> None:
    name = faulty(tmp_path, 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nafter = 2\ncount = 1')
    with warpbell.open(name) as ssd:
        dataset = records.IterableDataset(ssd, records.Fixed(record_bytes=100, count=60), batch_size=10, shuffle=False)
        batches = iter(dataset)
        ids = [*next(batches).ids, *next(batches).ids]
        with pytest.raises(warpbell.CommandError, match="could be read alone afterwards$"):
            next(batches)
        with pytest.raises(warpbell.Error, match="^iterator: ended by a failure; "):
            next(batches)
        assert ids + [id for batch in dataset for id in batch.ids] == list(range(60))


def test_an_error_of_a_record_is_whole_in_other_processes() -> None:
    error = records.RecordError("record 3 of x: failed", record=3, ssd="x", offset=512, status=641)
    copy = pickle.loads(pickle.dumps(error))
    for one in (error, copy):
        assert (str(one), one.record, one.ssd, one.offset, one.status) == ("record 3 of x: failed", 3, "x", 512, 641)
        assert type(one) is records.RecordError and isinstance(one, warpbell.CommandError)
    text = records.RecordError("record 3 of x: failed")
    assert (str(text), text.record, text.ssd, text.offset, text.status) == ("record 3 of x: failed", None, None, None, None)
