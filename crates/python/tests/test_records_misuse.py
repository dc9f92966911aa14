"""Wrong calls of datasets of records: each raises one exception with one line."""

from __future__ import annotations

import hashlib
import json
import pathlib
import struct
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
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


GOOD = {"kind": "indexed", "count": 1, "layout": "stripe", "chunk_bytes": 4096, "ssds": 1, "dtype": "uint8", "shape": None}
GOOD_FIXED = GOOD | {"kind": "fixed", "record_bytes": 512, "stride": 512, "offset": 0}


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        (b"[1", 0, "its text is no JSON: "),
        (b"\xff", 0, "its text is no JSON: "),
        ([1], 16, "kind None: must be fixed or indexed"),
        ({"count": 1}, 16, "kind None: must be fixed or indexed"),
        (GOOD | {"kind": ["fixed"]}, 16, r"kind \['fixed'\]: must be fixed or indexed"),
        ({name: value for name, value in GOOD.items() if name != "shape"}, 16, "its text has no shape"),
        ({name: value for name, value in GOOD_FIXED.items() if name != "stride"}, 0, "its text has no stride"),
        (GOOD | {"count": "1"}, 16, "count '1': must be a whole number"),
        (GOOD | {"count": -1}, 16, "count -1: must be a whole number"),
        (GOOD | {"ssds": None}, 16, "ssds None: must be a whole number"),
        (GOOD, 15, "15 bytes behind its text: must be 16, for 1 records"),
        (GOOD, 24, "24 bytes behind its text: must be 16, for 1 records"),
        (GOOD_FIXED, 8, "8 bytes behind its text: must be 0, for 1 records"),
        (GOOD | {"shape": 5}, 16, "shape of type int: must be a tuple"),
        (GOOD | {"dtype": 5}, 16, "dtype of type int: must be text"),
        (GOOD | {"layout": "raid"}, 16, "layout raid: must be stripe or concatenate"),
        (GOOD | {"layout": []}, 16, r"layout \[\]: must be stripe or concatenate"),
        (GOOD_FIXED | {"record_bytes": 0}, 0, "record_bytes 0: must be from 1"),
        (GOOD_FIXED | {"stride": 1.5}, 0, "stride of type float: must be a whole number"),
    ],
)
def test_an_index_with_a_checksum_and_nonsense_is_refused(tmp_path: pathlib.Path, text: Any, words: int, line: str) -> None:
    def write(text: Any, words: int) -> None:
        head = text if isinstance(text, bytes) else json.dumps(text).encode()
        body = struct.pack("<8sII", b"WBRECIDX", 1, len(head)) + head + bytes(words)
        file.write_bytes(body + hashlib.sha256(body).digest())

    file = tmp_path / "x.index"
    write(text, words)
    with pytest.raises(warpbell.ArgumentError, match=f"^index {file}: {line}") as caught:
        records.load_index(file)
    assert type(caught.value) is warpbell.ArgumentError
    write(GOOD, 16)
    assert records.load_index(file, 1).count == 1
    write(GOOD_FIXED, 0)
    assert records.load_index(file, 1) == records.Fixed(record_bytes=512, count=1, chunk_bytes=4096)


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
    yield "write_numbers", lambda ssd: records.write(ssd, 5), kind, "source of type int: must be an array, or records"  # type: ignore[arg-type]
    yield "write_number", lambda ssd: records.write(ssd, numpy.array(5)), argument, "source of type numpy.ndarray: is one number"
    yield "write_fields", lambda ssd: records.write(ssd, numpy.ones((4, 3), [("a", "i4"), ("b", "f4")])), argument, "dtype .*: an index has no name for it"
    yield "write_bf16", lambda ssd: records.write(ssd, numpy.ones((4, 3), ml_dtypes.bfloat16)), argument, "dtype bfloat16: an index has no name for it"
    yield "write_objects", lambda ssd: records.write(ssd, numpy.array([b"x"], object)), argument, "dtype object: an index has no name"
    yield "write_empty_rows", lambda ssd: records.write(ssd, numpy.ones((4, 0))), argument, r"source of shape \(4, 0\): its rows have no bytes"
    yield "write_other_rows", lambda ssd: records.write(ssd, numpy.ones((4, 2)), record_bytes=8), argument, "record_bytes 8: a row of the array has 16"
    yield "write_dtype", lambda ssd: records.write(ssd, [b"abcd"], dtype="nonsense", record_bytes=4), argument, "dtype nonsense: NumPy knows no such type"
    yield "write_dtype_ragged", lambda ssd: records.write(ssd, [b"abcd"], dtype="nonsense"), argument, "dtype nonsense: NumPy knows no such type"
    yield "write_dtype_number", lambda ssd: records.write(ssd, [b"abcd"], dtype=4), kind, "dtype of type int: must be text"  # type: ignore[arg-type]
    yield "write_shape", lambda ssd: records.write(ssd, [b"abcd"], shape=(7,), record_bytes=4), argument, r"shape \(7,\): of uint8 must have the 4 bytes of a record"
    yield "write_shape_ragged", lambda ssd: records.write(ssd, [b"abcd"], shape=(7,)), argument, r"shape \(7,\): of uint8 must have the 4 bytes of record 0"
    yield "write_item_ragged", lambda ssd: records.write(ssd, [b"abcd"], dtype="i8"), argument, "dtype i8: its 8 bytes must divide those of record 0, 4"
    yield "dtype_empty", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, dtype="S0")), argument, "dtype 'S0': has elements of 0 bytes"
    yield "shape_number", lambda ssd: records.Fixed(record_bytes=8, count=1, shape=5), kind, "shape of type int: must be a tuple"  # type: ignore[arg-type]
    yield "shape_open_twice", lambda ssd: records.Fixed(record_bytes=8, count=1, shape=(-1, -1)), argument, r"shape \(-1, -1\): has -1 more than once"
    yield "shape_open", lambda ssd: records.MapDataset(ssd, records.Fixed(record_bytes=8, count=1, shape=(-1, 3))), argument, r"shape \(-1, 3\): of uint8 must have the 8"
    yield "fetch_number", lambda ssd: records.MapDataset(ssd, FIXED).fetch(3), kind, "ids of type int: must be a list"  # type: ignore[arg-type]
    yield "order_slice", lambda ssd: records.Order(4)[0:2], kind, "position of type slice: must be a whole number"  # type: ignore[index]
    yield "order_negative", lambda ssd: records.Order(4)[-1], records.NumberError, "position -1: rank 0 of 1 has 4 records"
    yield "state_none", lambda ssd: records.IterableDataset(ssd, FIXED).load_state_dict(None), kind, "state of type NoneType: must be"  # type: ignore[arg-type]
    yield "state_list", lambda ssd: records.IterableDataset(ssd, FIXED).load_state_dict([]), kind, "state of type list: must be"  # type: ignore[arg-type]
    yield "skip_0", lambda ssd: records.IterableDataset(ssd, FIXED).skip(0), argument, "count 0: must be from 1"
    yield "options_number", lambda ssd: records.MapDataset(ssd, FIXED, options=5), kind, "options of type int: must be a mapping"  # type: ignore[arg-type]
    yield "options_keys", lambda ssd: records.MapDataset(ssd, FIXED, options={5: 5}), kind, "options of type dict: must be a mapping of names"  # type: ignore[dict-item]
    yield "options_unknown", lambda ssd: records.MapDataset("soft:size=1m", FIXED, options={"dept": 1}), argument, "options dept: warpbell.open has no such option; did you mean depth"
    yield "options_name", lambda ssd: records.MapDataset("soft:size=1m", FIXED, options={"name": "x"}), argument, "options name: warpbell.open has no such"
    yield "options_of_files", lambda ssd: records.MapDataset(ssd, FIXED, options={"partition": 1}), argument, "options partition: is of a file, and no file is named"
    yield "options_namespace", lambda ssd: records.MapDataset(ssd, FIXED, options={"namespace": 2}), argument, "options namespace 2: soft:size=64m was given open, with namespace 1"
    yield "load_number", lambda ssd: records.load_index(5), kind, "path of type int: must be the path of an index"  # type: ignore[arg-type]
    yield "save_nothing", lambda ssd: records.save_index("/tmp/x.index", None, 1), kind, "index of type NoneType: must be records.Fixed"  # type: ignore[arg-type]
    yield "save_nowhere", lambda ssd: records.save_index("/nowhere/x.index", FIXED, 1), warpbell.MissingError, "index /nowhere/x.index: No such file"
    yield "write_nowhere", lambda ssd: records.write(ssd, [b"x"], index="/nowhere/x.index"), warpbell.MissingError, "index /nowhere/x.index: there is no folder"
    yield "no_file", lambda ssd: records.load_index("/nowhere/x.index"), warpbell.MissingError, "index /nowhere/x.index: "


@pytest.mark.parametrize(("call", "kind", "line"), [row[1:] for row in wrong()], ids=[row[0] for row in wrong()])
def test_a_wrong_call_raises_one_line(ssd: warpbell.Ssd, call: Callable[[warpbell.Ssd], Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=f"^{line}") as caught:
        call(ssd)
    assert type(caught.value) is kind and "\n" not in str(caught.value)
    assert ssd.read(0, 4096) == bytes(4096), "nothing was written"


@pytest.mark.parametrize(
    ("name", "value"), [("count", 7), ("shuffle", False), ("seed", 4), ("rank", 1), ("world_size", 3), ("version", 1), ("index", "0" * 64), ("position", 9), ("epoch", "1")]
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
        records.MapDataset([ssd, warpbell.open("soft:size=1m")], tmp_path / "one.index")


def test_a_state_of_another_index_is_refused(ssd: warpbell.Ssd) -> None:
    state = records.IterableDataset(ssd, FIXED).state_dict()
    for other in (
        records.Fixed(record_bytes=512, count=8, offset=512),
        records.Fixed(record_bytes=256, count=8),
        records.Indexed(offsets=range(0, 4096, 512), lengths=[512] * 8),
    ):
        with pytest.raises(warpbell.ArgumentError, match=f"^state's index {state['index']}: this dataset has "):
            records.IterableDataset(ssd, other).load_state_dict(state)
    places = [records.Indexed(offsets=[0, last], lengths=[5, 5]) for last in (5, 6)]
    states = [records.IterableDataset(ssd, index).state_dict() for index in places]
    assert states[0]["index"] != states[1]["index"] and states[0]["count"] == states[1]["count"]
    records.IterableDataset(ssd, records.Fixed(record_bytes=512, count=8)).load_state_dict(state)


@pytest.mark.parametrize(("name", "value"), [("RANK", "1"), ("WORLD_SIZE", "2"), ("RANK", "x")])
def test_half_an_environment_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for other in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(warpbell.ArgumentError, match="^environment"):
        records.Order(4)
