"""Safetensors files on SSDs: bit for bit those of the safetensors package, checksums, kernels."""

from __future__ import annotations

import array
import ctypes
import hashlib
import importlib.util
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from safetensors import numpy as package

import warpbell
from warpbell import safetensors

Tensors = dict[str, "numpy.ndarray[Any, Any]"]


def some_tensors(seed: int) -> Tensors:
    """Tensors of every type that NumPy has, with empty ones and scalars, and sizes around blocks."""
    chosen = numpy.random.default_rng(seed)
    types = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8"]
    shapes = [(), (0,), (1,), (3, 0, 2), (7,), (512,), (33, 65), (5, 1, 9), (128, 1000), (4096,)]
    made: Tensors = {}
    for number in range(40):
        shape, dtype = shapes[chosen.integers(len(shapes))], numpy.dtype(types[chosen.integers(len(types))])
        count = int(numpy.prod(shape)) * dtype.itemsize
        data = chosen.integers(0, 2 if dtype.kind == "b" else 256, count, dtype=numpy.uint8)
        made[f"layer.{number}.größe"] = data.view(dtype).reshape(shape)
    return made


def put(ssd: warpbell.Ssd, data: bytes, offset: int = 0) -> None:
    ssd.write(offset, data + bytes(-len(data) % ssd.block_size))


def assert_same(found: dict[str, Any], wanted: Tensors) -> None:
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert found[name].tobytes() == tensor.tobytes(), name


@pytest.fixture(params=["512", "4096"])
def disk(request: pytest.FixtureRequest) -> Iterator[warpbell.Ssd]:
    with warpbell.open(f"soft:size=32m,block={request.param}") as ssd:
        yield ssd


@pytest.mark.parametrize("seed", range(4))
def test_a_file_of_the_package_loads_bit_for_bit(disk: warpbell.Ssd, seed: int) -> None:
    wanted = some_tensors(seed)
    put(disk, package.save(wanted, metadata={"made": "by the package"}), 8192)
    handle = safetensors.open(disk, 8192)
    assert handle.metadata() == {"made": "by the package"}
    assert_same(handle.load_all(), wanted)
    for name in handle.keys():
        assert_same({name: handle.load(name)}, {name: wanted[name]})
        assert handle.shape(name) == wanted[name].shape


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("checksums", [True, False])
def test_a_file_of_ours_is_read_by_the_package(disk: warpbell.Ssd, seed: int, checksums: bool) -> None:
    wanted = some_tensors(seed)
    nbytes = safetensors.save(disk, wanted, 4096, metadata={"made": "by us"}, checksums=checksums)
    assert_same(package.load(disk.read(4096, -(-nbytes // 4096) * 4096)[:nbytes]), wanted)
    handle = safetensors.open(disk, 4096)
    assert handle.nbytes == nbytes and handle.metadata()["made"] == "by us"
    assert ("warpbell.sha256" in handle.metadata()) == checksums
    assert_same(handle.load_all(), wanted)


@pytest.mark.parametrize("target", ["cpu", "ptx"])
@pytest.mark.parametrize("queues", [1, 3])
def test_our_kernels_load_bit_for_bit(target: str, queues: int) -> None:
    reason = warpbell.what_works()[target]
    if reason is not None:
        pytest.skip(reason)
    wanted = dict(list(some_tensors(9).items())[:12])
    # More than the lanes of all warps read at once.
    wanted["large"] = numpy.random.default_rng(2).integers(0, 256, (2_000_003,), dtype=numpy.uint8)
    with warpbell.open("soft:size=8m,mdts=2") as ssd:
        put(ssd, package.save(wanted), 1024)
        with ssd.attach(target, queues=queues, warps=queues) as attached:
            handle = safetensors.open(ssd, 1024, queues=attached)
            before = sum(each["ticket"] for each in attached.counters())
            assert_same(handle.load_all(), wanted)
            assert sum(each["ticket"] for each in attached.counters()) - before >= sum(tensor.nbytes > 0 for tensor in wanted.values())


def test_our_kernels_name_the_tensor_that_fails(tmp_path: pathlib.Path) -> None:
    reason = warpbell.what_works()["cpu"]
    if reason is not None:
        pytest.skip(reason)
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [200, 200]\n')
    with warpbell.open(f"soft:size=1m,faults={plan}") as ssd:
        safetensors.save(ssd, {"a": bytes(51200), "b": bytes(102400), "c": bytes(512)})
        queues = ssd.attach()
        for handle in (safetensors.open(ssd), safetensors.open(ssd, queues=queues)):
            assert len(handle.load("a", "bytes")) == 51200
            with pytest.raises(safetensors.TensorReadError, match=r"^tensor 'b', 102400 bytes at \d+ of soft:") as caught:
                handle.load("b")
            assert caught.value.tensor == "b" and caught.value.status


def test_a_flipped_byte_is_named_by_tensor(disk: warpbell.Ssd) -> None:
    wanted = {name: tensor for name, tensor in some_tensors(3).items() if 0 < tensor.nbytes < 4096}
    nbytes = safetensors.save(disk, wanted, metadata={"a": "b"})
    good = disk.read(0, -(-nbytes // 4096) * 4096)
    begin = nbytes - sum(tensor.nbytes for tensor in wanted.values())
    for name in safetensors.open(disk).keys():
        for place in {begin, begin + wanted[name].nbytes - 1}:
            put(disk, good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
            handle = safetensors.open(disk)
            for other in wanted:
                if other != name:
                    assert_same({other: handle.load(other)}, {other: wanted[other]})
            for load in (lambda: handle.load(name), handle.load_all):
                with pytest.raises(safetensors.ChecksumError, match=f"^safetensors at byte 0 of soft:.*: tensor '{name}' of ") as caught:
                    load()
                assert caught.value.tensor == name
            assert safetensors.open(disk, verify=False).load(name).tobytes() != wanted[name].tobytes()
        begin += wanted[name].nbytes


def test_a_changed_header_is_refused(ssd: warpbell.Ssd) -> None:
    """Each byte of the header, changed, is no file, another header, or a checksum of a tensor that does not fit."""
    wanted = {"weight": numpy.arange(6, dtype=numpy.int32).reshape(2, 3), "bias": numpy.arange(3, dtype=numpy.int32)}
    nbytes = safetensors.save(ssd, wanted, metadata={"epoch": "5"})
    good = ssd.read(0, -(-nbytes // 512) * 512)
    for place in range(len(good[: nbytes - 36].rstrip(b" "))):
        put(ssd, good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises((safetensors.FormatError, safetensors.ChecksumError)):
            safetensors.open(ssd).load_all()
    put(ssd, good)
    assert_same(safetensors.open(ssd).load_all(), wanted)


@pytest.mark.parametrize("spaces", range(8))
def test_elements_at_odd_addresses_are_copied(ssd: warpbell.Ssd, spaces: int) -> None:
    """A header may have any length, and tensors behind it begin at any byte."""
    values = numpy.arange(9, dtype="<f8")
    head = b'{"a":{"dtype":"F64","shape":[9],"data_offsets":[0,72]}}' + b" " * spaces
    put(ssd, len(head).to_bytes(8, "little") + head + values.tobytes())
    found = safetensors.open(ssd).load("a")
    assert found.flags.aligned and (found == values).all()


def test_what_lies_around_a_file_stays(ssd: warpbell.Ssd) -> None:
    ssd.write(0, b"o" * 16384)
    nbytes = safetensors.save(ssd, {"a": bytes(700)}, 512)
    found = ssd.read(0, 16384)
    assert found[:512] == b"o" * 512 and found[512 + nbytes :] == b"o" * (16384 - 512 - nbytes)


def test_tensors_are_the_memory_that_the_ssd_wrote_to(ssd: warpbell.Ssd) -> None:
    safetensors.save(ssd, {"a": numpy.arange(1000.0), "b": numpy.arange(7, dtype="u1")})
    with safetensors.open(ssd) as handle:
        loaded = handle.load_all()
        assert loaded["b"].ctypes.data - loaded["a"].ctypes.data == 8000
    loaded["a"][:] = 1
    assert (safetensors.open(ssd).load("a") == numpy.arange(1000.0)).all() and (loaded["a"] == 1).all()


def test_a_closed_handle_loads_nothing(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(1 << 20))
    safetensors.save(f"soft:file={file}", {"a": numpy.arange(9), "none": numpy.zeros(0)}, options={"allow_write": str(file)})
    with safetensors.open(f"soft:file={file}") as handle:
        handle.load("a")
    for call in (lambda: handle.load("a"), lambda: handle.load("none"), handle.load_all, handle.__enter__):
        with pytest.raises(warpbell.ClosedError, match="^ssds soft:file=.*: what reads from them here was closed before$"):
            call()


def test_a_file_of_empty_tensors_is_writable(ssd: warpbell.Ssd) -> None:
    safetensors.save(ssd, {"a": numpy.zeros(0), "b": numpy.zeros((3, 0, 2), "u1")})
    handle = safetensors.open(ssd)
    for name in "ab":
        assert handle.load(name).flags.writeable and not handle.load(name, "bytes").readonly
    assert all(tensor.flags.writeable for tensor in handle.load_all().values())
    if warpbell.what_works()["cpu"] is None:
        with ssd.attach() as queues:
            assert safetensors.open(ssd, queues=queues).load("b").flags.writeable


def test_views_in_this_order_of_bytes_are_saved(ssd: warpbell.Ssd) -> None:
    plain = memoryview(array.array("f", [1, 2, 3]))
    of_ctypes = memoryview((ctypes.c_float * 3)(1, 2, 3))
    given = [plain, plain.cast("B").cast("@f"), of_ctypes]
    assert [view.format for view in given] == ["f", "@f", "<f"]
    for view in given:
        safetensors.save(ssd, {"a": view})
        handle = safetensors.open(ssd)
        assert handle.dtype("a") == "F32" and handle.load("a").tolist() == [1, 2, 3]
    safetensors.save(ssd, {"a": (ctypes.c_int64 * 2)(5, -6)})
    assert safetensors.open(ssd).load("a").tolist() == [5, -6]
    with pytest.raises(warpbell.ArgumentError, match="^tensor 'a': elements of '>f': the format has none such"):
        safetensors.save(ssd, {"a": (ctypes.c_float.__ctype_be__ * 3)(1, 2, 3)})


def test_several_ssds_have_one_file() -> None:
    ssds = [warpbell.open("soft:size=2m"), warpbell.open("soft:size=1m")]
    wanted = {"a": numpy.random.default_rng(1).integers(0, 256, 2_500_000, dtype="u1")}
    safetensors.save(ssds, wanted)
    assert_same(safetensors.open(ssds).load_all(), wanted)


@pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"])
def test_types_of_ml_dtypes(ssd: warpbell.Ssd, name: str) -> None:
    import ml_dtypes

    dtype = numpy.dtype(getattr(ml_dtypes, name))
    tensor = numpy.arange(0, 2 * 3 * 5 * dtype.itemsize, dtype="u1").view(dtype).reshape(2, 3, 5)
    nbytes = safetensors.save(ssd, {"a": tensor, "pad": b"x"})
    handle = safetensors.open(ssd)
    assert_same({"a": handle.load("a")}, {"a": tensor})
    raw = numpy.from_dlpack(handle.load("a", "dlpack"))
    assert raw.dtype.kind == "u" and raw.shape == (2, 3, 5) and raw.tobytes() == tensor.tobytes()
    from safetensors import deserialize

    found = dict(deserialize(ssd.read(0, -(-nbytes // 512) * 512)[:nbytes]))["a"]  # type: ignore[no-untyped-call]
    assert (found["dtype"], found["shape"], bytes(found["data"])) == (handle.dtype("a"), [2, 3, 5], tensor.tobytes())


WITHOUT = """
import sys
sys.modules["numpy"] = sys.modules["ml_dtypes"] = None
import array, warpbell
from warpbell import safetensors
with warpbell.open("soft:size=1m") as ssd:
    safetensors.save(ssd, {"a": array.array("f", [1, 2, 3]), "b": b"bytes"})
    handle = safetensors.open(ssd)
    assert handle.load("a", "bytes").cast("f").tolist() == [1, 2, 3] and handle.dtype("a") == "F32"
    assert bytes(handle.load_all("bytes")["b"]) == b"bytes"
    try:
        handle.load("a")
    except warpbell.MissingError as error:
        print(error)
"""


def test_bytes_need_no_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, 'numpy is not available: pip install numpy, or take framework="bytes"\n'), done.stderr


def test_raw_kinds_without_ml_dtypes(ssd: warpbell.Ssd, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpbell.safetensors import _kinds

    monkeypatch.setattr(_kinds, "extension_types", lambda: None)
    put(ssd, file_of({"a": ("BF16", [2, 2], 8), "b": ("F4", [6], 3), "c": ("F8_E5M2", [1], 1)}))
    loaded = safetensors.open(ssd).load_all()
    assert [(loaded[name].dtype.str, loaded[name].shape) for name in "abc"] == [("<u2", (2, 2)), ("|u1", (3,)), ("|u1", (1,))]


def file_of(tensors: dict[str, tuple[str, list[int], int]], **more: Any) -> bytes:
    """A file with these kinds, shapes and bytes."""
    text: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape, nbytes) in tensors.items():
        text[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + nbytes]}
        end += nbytes
    head = json.dumps(text | more).encode()
    return len(head).to_bytes(8, "little") + head + bytes(end)


def entry(dtype: Any = "U8", shape: Any = (4,), places: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": places}


def head_of(**tensors: Any) -> bytes:
    head = json.dumps(tensors).encode()
    return len(head).to_bytes(8, "little") + head


BAD = [
    ("empty", bytes(8), "header of 0 bytes: must have 2 to 100000000"),
    ("too_long", (100_000_001).to_bytes(8, "little"), "header of 100000001 bytes: must have 2 to 100000000"),
    ("huge", b"\xff" * 8, "header of 18446744073709551615 bytes"),
    ("beyond", (80_000_000).to_bytes(8, "little"), "header of 80000000 bytes: the SSDs have 67108856 behind its length"),
    ("no_brace", (4).to_bytes(8, "little") + b" {} ", "header begins with b' ': must begin with {"),
    ("no_json", (4).to_bytes(8, "little") + b"{a:}", "header is no JSON: "),
    ("no_utf8", (4).to_bytes(8, "little") + b'{"\xff"', "header is no JSON: "),
    ("behind", (4).to_bytes(8, "little") + b"{}\0\0", "header is no JSON: "),
    ("deep", (200_002).to_bytes(8, "little") + b'{"a":' + b"[" * 199_997, "header is no JSON: "),
    ("twice", (36).to_bytes(8, "little") + b'{"a":{"dtype":"U8"},"a":{"dtype":1}}', "header: name 'a' is there twice"),
    ("metadata", head_of(__metadata__={"a": 1}), "header: __metadata__ must have text for each name"),
    ("metadata_list", head_of(__metadata__=["a"]), "header: __metadata__ must have text for each name"),
    ("metadata_list_empty", head_of(__metadata__=[]), "header: __metadata__ must have text for each name"),
    ("metadata_0", head_of(__metadata__=0), "header: __metadata__ must have text for each name"),
    ("metadata_false", head_of(__metadata__=False), "header: __metadata__ must have text for each name"),
    ("metadata_text", head_of(__metadata__=""), "header: __metadata__ must have text for each name"),
    ("metadata_surrogate", head_of(__metadata__={"a": "\ud800"}), "header: text .*ud800': has half of a surrogate pair"),
    ("surrogate", head_of(**{"\ud800": entry()}), "header: text .*ud800': has half of a surrogate pair"),
    ("no_entry", head_of(a=7), "tensor 'a': must have dtype, shape and data_offsets"),
    ("part", head_of(a={"dtype": "U8", "shape": [1]}), "tensor 'a': must have dtype, shape and data_offsets"),
    ("dtype", head_of(a=entry("U7")), "tensor 'a': dtype 'U7': must be one of F64, "),
    ("dtype_number", head_of(a=entry(7)), "tensor 'a': dtype 7: must be one of "),
    ("shape_text", head_of(a=entry(shape="4")), "tensor 'a': shape '4': must be a list"),
    ("shape_negative", head_of(a=entry(shape=[-4])), r"tensor 'a': shape \[-4\]: must be a list"),
    ("shape_bool", head_of(a=entry(shape=[True], places=[0, 1])), r"tensor 'a': shape \[True\]: must be a list"),
    ("shape_huge", head_of(a=entry(shape=[1 << 62, 1 << 62])), "tensor 'a': .* elements of U8: take "),
    ("shape_huge_20", head_of(a=entry("F32", [1 << 62] * 20)), "tensor 'a': 4611686018427387904x.*x... elements of F32: take 2.63 bytes or more"),
    ("shape_too_late", head_of(a=entry(shape=[1 << 62, 1 << 62, 0], places=[0, 0])), "tensor 'a': .* elements of U8: take 2.63 bytes or more"),
    ("long_name", head_of(**{"n" * 100_000: 7}), "tensor 'nnn{50,200}\\.\\.\\.n+': must have dtype"),
    ("offsets_one", head_of(a=entry(places=[0])), r"tensor 'a': data_offsets \[0\]: must be a begin"),
    ("offsets_back", head_of(a=entry(places=[4, 0])), r"tensor 'a': data_offsets \[4, 0\]: must be a begin"),
    ("size", head_of(a=entry("F32")), "tensor 'a': 4 elements of F32: take 16 bytes, and it has 4"),
    ("bits", head_of(a=entry("F4", [3], [0, 1])), "tensor 'a': 3 elements of F4: take 12 bits, and it has 1 bytes"),
    ("begin", head_of(a=entry(places=[4, 8])), "tensor 'a': begins at 4, the tensor before it ends at 0: leaves a hole"),
    ("hole", head_of(a=entry(), b=entry(places=[5, 9])), "tensor 'b': begins at 5, the tensor before it ends at 4: leaves a hole"),
    ("overlap", head_of(a=entry(), b=entry(places=[3, 7])), "tensor 'b': begins at 3, .*: overlaps the tensor before it"),
    ("end", head_of(a=entry(shape=[1 << 40], places=[0, 1 << 40])), "tensors of 1099511627776 bytes: the SSDs have "),
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": entry(shape=[1 << 62] * 400_000)}),
        json.dumps({"a": entry(shape=[2] * 400_000)}),
        "{" + ",".join(f'"{number}":0' for number in range(200_000)) + ',"199999":0}',
    ],
    ids=["sizes", "twos", "twice"],
)
def test_a_hostile_header_is_refused_at_once(ssd: warpbell.Ssd, text: str) -> None:
    """What took minutes takes as long as to read it."""
    put(ssd, len(text).to_bytes(8, "little") + text.encode())
    began = time.monotonic()
    with pytest.raises(safetensors.FormatError) as caught:
        safetensors.open(ssd)
    assert time.monotonic() - began < 20 and len(str(caught.value)) < 1000


def test_metadata_of_null_is_none(ssd: warpbell.Ssd) -> None:
    put(ssd, head_of(__metadata__=None, a=entry()) + bytes(4))
    assert safetensors.open(ssd).metadata() == {}


def test_shapes_that_numpy_cannot_have_are_refused_by_name(ssd: warpbell.Ssd) -> None:
    put(ssd, head_of(a=entry(shape=[1] * 100, places=[0, 1])) + bytes(1))
    handle = safetensors.open(ssd)
    with pytest.raises(warpbell.ArgumentError, match=r"^shape 1x1x1x1x1x1x1x1x\.\.\.: NumPy has none such: "):
        handle.load("a")
    assert bytes(handle.load("a", "bytes")) == b"\0"


@pytest.mark.parametrize(("data", "line"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_no_file_is_refused(ssd: warpbell.Ssd, data: bytes, line: str) -> None:
    put(ssd, data)
    with pytest.raises(safetensors.FormatError, match=f"^safetensors at byte 0 of soft:size=64m: {line}") as caught:
        safetensors.open(ssd)
    assert "\n" not in str(caught.value)


def test_what_the_package_refuses_is_refused(ssd: warpbell.Ssd) -> None:
    """Headers with one wrong number: we read what the package reads, and nothing else."""
    chosen = numpy.random.default_rng(5)
    refused = 0
    for _ in range(300):
        sizes = [int(size) for size in chosen.integers(0, 5, 3)]
        ends = [int(end) for end in numpy.cumsum([4 * size for size in sizes])]
        places = [[end - 4 * size, end] for size, end in zip(sizes, ends)]
        wrong = chosen.integers(4)
        if wrong:
            places[chosen.integers(3)][chosen.integers(2)] += int(chosen.integers(-4, 5))
        if any(number < 0 for place in places for number in place):
            continue
        data = head_of(**{name: entry("F32", [size], place) for name, size, place in zip("abc", sizes, places)}) + bytes(ends[-1])
        try:
            package.load(data)
        except Exception:
            refused += 1
            put(ssd, data)
            with pytest.raises(safetensors.FormatError):
                safetensors.open(ssd)
        else:
            put(ssd, data)
            safetensors.open(ssd).load_all()
    assert 50 < refused < 290


class Odd:
    dtype = numpy.dtype("U3")

    def __array__(self, *_: Any, **__: Any) -> Any:
        return numpy.array(["abc"])


@pytest.mark.parametrize(
    ("tensors", "options", "kind", "line"),
    [
        ({"a": "text"}, {}, warpbell.ArgumentTypeError, "tensor 'a' of type str: must be an array"),
        ({"a": 7}, {}, warpbell.ArgumentTypeError, "tensor 'a' of type int: must be an array"),
        ({7: b"x"}, {}, warpbell.ArgumentTypeError, "tensor 7: its name must be text"),
        ({"__metadata__": b"x"}, {}, warpbell.ArgumentError, "tensor '__metadata__': is the format's own name"),
        ({"a": Odd()}, {}, warpbell.ArgumentError, "tensor 'a': elements of <U3: the format has none such"),
        ({"a": numpy.zeros(2, "c16")}, {}, warpbell.ArgumentError, "tensor 'a': elements of complex128"),
        ({"a": numpy.zeros(2, "M8[s]")}, {}, warpbell.ArgumentError, "tensor 'a': elements of datetime64"),
        ({"a": numpy.zeros(2, object)}, {}, warpbell.ArgumentError, "tensor 'a': elements of object"),
        (None, {}, warpbell.ArgumentTypeError, "tensors of type NoneType: must be a mapping of names to tensors"),
        ([b"x"], {}, warpbell.ArgumentTypeError, "tensors of type list: must be a mapping"),
        ({1: b"x", "b": b"y"}, {}, warpbell.ArgumentTypeError, "tensor 1: its name must be text"),
        ({"\ud800": b"x"}, {}, warpbell.ArgumentError, "tensor .*ud800': its name has half of a surrogate pair"),
        ({}, {"metadata": ["x"]}, warpbell.ArgumentTypeError, "metadata of type list: must be a mapping of names to text"),
        ({}, {"metadata": {"a": "\ud800"}}, warpbell.ArgumentError, "metadata 'a': has half of a surrogate pair"),
        ({}, {"metadata": {"a": 1}}, warpbell.ArgumentTypeError, "metadata 'a' of type int: must be text"),
        ({}, {"metadata": {"warpbell.sha256": "x"}}, warpbell.ArgumentError, "metadata 'warpbell.sha256': is where checksums are kept"),
        ({"a": bytes(1 << 20)}, {"offset": 64 << 20}, warpbell.ArgumentError, "offset 67108864: the file has "),
        ({"a": b"x"}, {"offset": 100}, warpbell.ArgumentError, "offset 100: must be a multiple of the block size"),
        ({"a": b"x"}, {"offset": -512}, warpbell.ArgumentError, "offset -512: must be from 0"),
    ],
)
def test_what_cannot_be_saved_is_refused(ssd: warpbell.Ssd, tensors: Any, options: Any, kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=f"^{line}"):
        safetensors.save(ssd, tensors, **options)
    assert hashlib.sha256(ssd.read(0, 1 << 20)).digest() == hashlib.sha256(bytes(1 << 20)).digest(), "nothing was written"


def test_wrong_calls(ssd: warpbell.Ssd) -> None:
    safetensors.save(ssd, {"weight": numpy.zeros(3)})
    handle = safetensors.open(ssd)
    for call, kind, line in (
        (lambda: handle.load("weigth"), warpbell.ArgumentError, "tensor 'weigth': safetensors at byte 0 .* did you mean 'weight'"),
        (lambda: handle.load("weight", "jax"), warpbell.ArgumentError, "framework jax: must be numpy, torch, dlpack or bytes"),
        (lambda: safetensors.open(ssd, 64 << 20), warpbell.ArgumentError, "offset 67108864: the SSDs have 67108864 bytes"),
        (lambda: safetensors.open("nvme0"), warpbell.ArgumentError, "device 'nvme0'"),
        (lambda: safetensors.open([ssd, warpbell.open("soft:size=1m")], queues=ssd.attach()), warpbell.ArgumentError, "queues: a kernel reads from 1"),
        (lambda: safetensors.open(ssd, queues=warpbell.open("soft:size=1m").attach()), warpbell.ArgumentError, "buffer .*belongs to soft:size=1m"),
    ):
        with pytest.raises(kind, match=f"^{line}"):
            call()


def test_big_endian_and_strided_arrays_are_saved(ssd: warpbell.Ssd) -> None:
    tensor = numpy.arange(12, dtype=">i4").reshape(3, 4)
    safetensors.save(ssd, {"big": tensor, "part": numpy.arange(20.0)[::3], "turned": numpy.arange(6.0).reshape(2, 3).T})
    loaded = safetensors.open(ssd).load_all()
    assert loaded["big"].dtype.str == "<i4" and (loaded["big"] == tensor).all()
    assert (loaded["part"] == numpy.arange(20.0)[::3]).all() and (loaded["turned"] == numpy.arange(6.0).reshape(2, 3).T).all()
