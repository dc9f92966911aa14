"""Wrong calls of datasets of records: each raises one exception with one line."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import warpbell
from warpbell import records

FIXED = records.Fixed(record_bytes=512, count=8)


def test_an_index_that_was_changed_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "bad.index"
    records.save_index(file, records.Indexed(offsets=range(9), lengths=[5] * 9), 1)
    good = file.read_bytes()
    for at in range(0, len(good), 5):
        file.write_bytes(good[:at] + bytes([good[at] ^ 16]) + good[at + 1 :])
        with pytest.raises(warpbell.ArgumentError, match=f"^index {file}: "):
            records.load_index(file)
        file.write_bytes(good[:at])
        with pytest.raises(warpbell.ArgumentError, match=f"^index {file}: "):
            records.load_index(file)


def wrong() -> Iterator[tuple[str, Callable[[warpbell.Ssd], Any], type[Exception], str]]:
    """Wrong calls: name, call, exception, beginning of its line."""
    argument, kind = warpbell.ArgumentError, warpbell.ArgumentTypeError
    yield "size_0", lambda ssd: records.Fixed(record_bytes=0, count=1), argument, "record_bytes 0: must be from 1"
    yield "size_float", lambda ssd: records.Fixed(record_bytes=4.0, count=1), kind, "record_bytes of type float: must be a whole number"  # type: ignore[arg-type]
    yield "count_negative", lambda ssd: records.Fixed(record_bytes=1, count=-1), argument, "count -1: must be from 0"
    yield "stride_small", lambda ssd: records.Fixed(record_bytes=8, count=1, stride=4), argument, "stride 4: must be from 8"
    yield "layout", lambda ssd: records.Fixed(record_bytes=8, count=1, layout="raid"), argument, "layout raid: must be stripe or concatenate"
    yield "uneven", lambda ssd: records.Indexed(offsets=[1, 2], lengths=[1]), argument, "lengths 1: must be as many as offsets, 2"
    yield "offset_negative", lambda ssd: records.Indexed(offsets=[-1], lengths=[1]), argument, "offsets: each must be from 0"
    yield "offset_negative_array", lambda ssd: records.Indexed(offsets=numpy.array([-1]), lengths=[1]), argument, "offsets: each must be from 0"
    yield "offset_huge", lambda ssd: records.Indexed(offsets=[1 << 63], lengths=[1]), argument, "offsets: each must be from 0"
    yield "lengths_text", lambda ssd: records.Indexed(offsets=[1], lengths="a"), kind, "lengths of type str: must be a sequence"
    yield "lengths_float", lambda ssd: records.Indexed(offsets=[1], lengths=numpy.array([1.5])), kind, "lengths of type numpy.ndarray"
    yield "no_index", lambda ssd: records.MapDataset(ssd, 7), argument, "index: must be records.Fixed"  # type: ignore[arg-type]
    yield "no_ssds", lambda ssd: records.MapDataset([], FIXED), argument, "ssds: there are none"
    yield "ssds_number", lambda ssd: records.MapDataset(7, FIXED), kind, "ssds of type int: must be the name"  # type: ignore[arg-type]
    yield "framework", lambda ssd: records.MapDataset(ssd, FIXED, framework="jax"), argument, "framework jax: must be numpy or bytes"
    yield "dtype", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, dtype="f5")), argument, "dtype f5: NumPy knows no such type"
    yield "dtype_size", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=9, count=1, dtype="f4")), argument, "dtype f4: its 4 bytes"
    yield "shape", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=9, count=1, shape=(2, 4))), argument, r"shape \(2, 4\): of uint8"
    yield "beyond", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=1 << 26, count=2))[0], argument, "index: its records end at byte"
    yield "number", lambda ssd: records.MapDataset(ssd, FIXED)[8], records.NumberError, "record 8: there are 8"
    yield "number_low", lambda ssd: records.MapDataset(ssd, FIXED)[-9], records.NumberError, "record -9: there are 8"
    yield "number_text", lambda ssd: records.MapDataset(ssd, FIXED)["7"], kind, "record of type str"  # type: ignore[index]
    yield "batch_0", lambda ssd: records.IterableDataset(ssd, FIXED, batch_size=0), argument, "batch_size 0: must be from 1"
    yield "prefetch_0", lambda ssd: records.IterableDataset(ssd, FIXED, prefetch=0), argument, "prefetch 0: must be from 1"
    yield "seed_negative", lambda ssd: records.IterableDataset(ssd, FIXED, seed=-1), argument, "seed -1: must be from 0"
    yield "rank_alone", lambda ssd: records.IterableDataset(ssd, FIXED, rank=0), argument, "rank 0 of None: give both"
    yield "rank_high", lambda ssd: records.IterableDataset(ssd, FIXED, rank=2, world_size=2), argument, "rank 2: must be from 0 to 1"
    yield "world_0", lambda ssd: records.IterableDataset(ssd, FIXED, rank=0, world_size=0), argument, "world_size 0: must be from 1"
    yield "epoch", lambda ssd: records.IterableDataset(ssd, FIXED).set_epoch(-1), argument, "epoch -1: must be from 0"
    yield "position", lambda ssd: records.Order(4)[4], records.NumberError, "position 4: rank 0 of 1 has 4 records"
    yield "chunk", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, chunk_bytes=100))[0], argument, "chunk_bytes 100: must be a multiple"
    yield "write_odd", lambda ssd: records.write(ssd, [b"x"], offset=7), argument, "offset 7: must be a multiple of the block size of soft:size=64m, 512"
    yield "write_text", lambda ssd: records.write(ssd, ["text"]), kind, "data of type str: must have the buffer protocol"
    yield "write_other", lambda ssd: records.write(ssd, [b"12", b"3"], record_bytes=2), argument, "record 1 of 1 bytes: must have record_bytes, 2"
    yield "write_beyond", lambda ssd: records.write(ssd, [bytes(4096)], offset=64 << 20), argument, "offset 67108864 and"
    yield "no_file", lambda ssd: records.load_index("/nowhere/x.index"), warpbell.MissingError, "index /nowhere/x.index: "


@pytest.mark.parametrize(("call", "kind", "line"), [row[1:] for row in wrong()], ids=[row[0] for row in wrong()])
def test_a_wrong_call_raises_one_line(ssd: warpbell.Ssd, call: Callable[[warpbell.Ssd], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=f"^{line}") as caught:
        call(ssd)
    assert type(caught.value) is kind and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("count", 7), ("shuffle", False), ("seed", 4), ("rank", 1), ("world_size", 3), ("version", 2), ("position", 9), ("epoch", "1")]
)
def test_a_state_of_something_else_is_refused(ssd: warpbell.Ssd, name: str, value: object) -> None:
    dataset = records.IterableDataset(ssd, FIXED)
    state = dataset.state_dict()
    with pytest.raises(warpbell.Error, match=f"^state's {name} "):
        dataset.load_state_dict(state | {name: value})
    with pytest.raises(warpbell.Error, match=f"^state's {name} "):
        dataset.load_state_dict({key: state[key] for key in state if key != name})
    dataset.load_state_dict(state)


def test_another_number_of_ssds_is_refused(ssd: warpbell.Ssd, tmp_path: pathlib.Path) -> None:
    records.save_index(tmp_path / "one.index", FIXED, 1)
    with pytest.raises(warpbell.ArgumentError, match="its records lie on 1 SSDs, and not on 2$"):
        records.MapDataset([ssd, ssd], tmp_path / "one.index")


@pytest.mark.parametrize(("name", "value"), [("RANK", "1"), ("WORLD_SIZE", "2"), ("RANK", "x")])
def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for other in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(warpbell.ArgumentError, match="^environment"):
        records.Order(4)
