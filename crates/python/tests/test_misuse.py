"""Wrong calls: each raises one exception of Warpbell's with one line, and nothing else happens."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import warpbell

Call = Callable[["Things"], Any]


class Things:
    """What the calls are made on."""

    def __init__(self) -> None:
        self.ssd = warpbell.open("soft:size=1m")
        self.other = warpbell.open("soft:size=2m")
        self.buffer = self.ssd.buffer(8192)
        self.foreign = self.other.buffer(8192)
        self.queues = self.ssd.attach()
        self.closed = self.ssd.buffer(512)
        self.closed.close()
        self.gone = self.ssd.attach(iodepth=1)
        self.gone.close()


@pytest.fixture(scope="module")
def things() -> Things:
    return Things()


def nowhere(_: Things) -> Any:
    return warpbell.open("vfio-user:/nowhere/ssd.sock")


OPEN = [
    ("no_form", lambda t: warpbell.open("nvme0"), "ArgumentError", "device 'nvme0': unknown form"),
    ("no_name", lambda t: warpbell.open(""), "ArgumentError", "device '': unknown form"),
    ("number_as_name", lambda t: warpbell.open(7), "ArgumentTypeError", "name of type int: must be text"),
    ("nothing_behind_soft", lambda t: warpbell.open("soft:"), "ArgumentError", "device 'soft:': nothing behind soft:"),
    ("unknown_setting", lambda t: warpbell.open("soft:size=1m,speed=9"), "ArgumentError", "soft device setting \"speed\" is unknown"),
    ("wrong_size", lambda t: warpbell.open("soft:size=big"), "ArgumentError", "soft device setting size=big"),
    ("no_file", lambda t: warpbell.open("soft:file=/nowhere/disk.img"), "ArgumentError", "/nowhere/disk.img"),
    ("virtual_time", lambda t: warpbell.open("soft:size=1m,time=virtual"), "ArgumentError", "device soft:size=1m,time=virtual: virtual time"),
    ("no_socket", nowhere, "MissingError", "/nowhere/ssd.sock"),
    ("no_function", lambda t: warpbell.open("ffff:ff:1f.7"), "Error", "ffff:ff:1f.7"),
    ("resident", lambda t: warpbell.open("resident:"), "ArgumentError", "device resident:: lives in a launch"),
    ("no_namespace", lambda t: warpbell.open("soft:size=1m", namespace=2), "ArgumentError", r"namespace 2: the device has usable namespaces \[1\]"),
    ("namespace_0", lambda t: warpbell.open("soft:size=1m", namespace=0), "ArgumentError", "namespace 0: must be from 1"),
    ("depth_0", lambda t: warpbell.open("soft:size=1m", depth=0), "ArgumentError", "depth 0: must be from 1 to 1023"),
    ("depth_beyond", lambda t: warpbell.open("soft:size=1m,entries=16", depth=16), "ArgumentError", "depth 16: queues of soft:size=1m,entries=16 have at most 16 entries: depth is at most 15"),
    ("depth_text", lambda t: warpbell.open("soft:size=1m", depth="32"), "ArgumentTypeError", "depth of type str: must be a whole number"),
    ("few_entries", lambda t: warpbell.open("soft:size=1m", queue_entries=8), "ArgumentError", "queue_entries 8: must be from depth"),
    ("queues_0", lambda t: warpbell.open("soft:size=1m", queues=0), "ArgumentError", "queues 0: must be from 1 to 65535"),
    ("timeout_negative", lambda t: warpbell.open("soft:size=1m", timeout=-1), "ArgumentError", "timeout -1: must be from 0"),
    ("timeout_0", lambda t: warpbell.open("soft:size=1m", timeout=0), "ArgumentError", "timeout 0: must be at least 0.001 seconds"),
    ("timeout_nan", lambda t: warpbell.open("soft:size=1m", timeout=float("nan")), "ArgumentError", "timeout NaN: must be from 0"),
    ("allow_write_number", lambda t: warpbell.open("soft:size=1m", allow_write=1), "ArgumentTypeError", "allow_write of type int"),
]

BUFFERS = [
    ("buffer_0", lambda t: t.ssd.buffer(0), "ArgumentError", "nbytes 0: must be from 1"),
    ("buffer_negative", lambda t: t.ssd.buffer(-1), "ArgumentError", r"nbytes -1: must be from 0 to 2\^64 - 1"),
    ("buffer_float", lambda t: t.ssd.buffer(4096.0), "ArgumentTypeError", "nbytes of type float: must be a whole number"),
    ("buffer_bool", lambda t: t.ssd.buffer(True), "ArgumentTypeError", "nbytes of type bool: must be a whole number"),
    ("buffer_huge", lambda t: t.ssd.buffer(1 << 62), "DeviceError", "^cannot map 4611686018427387904 bytes"),
    ("buffer_beyond", lambda t: t.ssd.buffer(1 << 64), "ArgumentError", "nbytes 18446744073709551616: must be from 0"),
    ("register_bytes", lambda t: t.ssd.register(b"x" * 512), "ArgumentError", "register bytes: is read-only"),
    ("register_number", lambda t: t.ssd.register(512), "ArgumentTypeError", "register of type int"),
    ("register_strided", lambda t: t.ssd.register(numpy.zeros(64)[::2]), "ArgumentError", "register numpy.ndarray: is not contiguous"),
    ("register_odd", lambda t: t.ssd.register(numpy.zeros(64, "u1")[1:]), "ArgumentError", "register numpy.ndarray: begins at"),
    ("register_objects", lambda t: t.ssd.register(numpy.array([None] * 64)), "ArgumentError", "register numpy.ndarray: holds Python objects"),
    ("register_fields", lambda t: t.ssd.register(numpy.zeros(64, [("n", "i8"), ("x", "O")])), "ArgumentError", "register numpy.ndarray: holds Python objects"),
    ("register_buffer", lambda t: t.ssd.register(t.buffer), "ArgumentTypeError", "register of type warpbell.Buffer: is a buffer already"),
    ("queues_register_buffer", lambda t: t.queues.register(t.buffer), "ArgumentTypeError", "register of type warpbell.Buffer: is a buffer already"),
    ("dlpack_stream", lambda t: t.buffer.__dlpack__(stream=1), "ArgumentError", "stream 1: must be None"),
    ("closed_view", lambda t: memoryview(t.closed), "ClosedError", "buffer of 512 bytes: was closed before"),
    ("closed_address", lambda t: t.closed.address, "ClosedError", "buffer of 512 bytes: was closed before"),
]

IO = [
    ("array_for_buffer", lambda t: t.ssd.read_into(numpy.zeros(512), 0), "ArgumentTypeError", "buffer of type numpy.ndarray: must be a warpbell.Buffer"),
    ("none_for_buffer", lambda t: t.ssd.write_from(None, 0), "ArgumentTypeError", "buffer of type NoneType"),
    ("foreign_buffer", lambda t: t.ssd.read_into(t.foreign, 0), "ArgumentError", "^buffer of 8192 bytes: belongs to soft:size=2m"),
    ("closed_buffer", lambda t: t.ssd.read_into(t.closed, 0), "ClosedError", "buffer of 512 bytes: was closed before"),
    ("offset_odd", lambda t: t.ssd.read_into(t.buffer, 100), "ArgumentError", "offset 100: must be a multiple of the block size of soft:size=1m, 512 bytes"),
    ("offset_beyond", lambda t: t.ssd.read_into(t.buffer, 1 << 20), "ArgumentError", "offset 1048576 and 8192 bytes: soft:size=1m has 1048576 bytes"),
    ("offset_overflow", lambda t: t.ssd.write_from(t.buffer, (1 << 64) - 512), "ArgumentError", "offset 18446744073709551104 and 8192 bytes"),
    ("offset_negative", lambda t: t.ssd.read_into(t.buffer, -512), "ArgumentError", "offset -512: must be from 0"),
    ("offset_text", lambda t: t.ssd.read_into(t.buffer, "0"), "ArgumentTypeError", "offset of type str"),
    ("at_odd", lambda t: t.ssd.read_into(t.buffer, 0, at=2, nbytes=512), "ArgumentError", "at 2: must be a multiple of 4 bytes"),
    ("at_beyond", lambda t: t.ssd.read_into(t.buffer, 0, at=8196), "ArgumentError", "at 8196: must be from 0 to 8192"),
    ("at_end", lambda t: t.ssd.read_into(t.buffer, 0, at=8192), "ArgumentError", "at 8192: the buffer has 8192 bytes, and none from there on"),
    ("nbytes_odd", lambda t: t.ssd.read_into(t.buffer, 0, nbytes=513), "ArgumentError", "nbytes 513: must be more than 0 and a multiple"),
    ("nbytes_beyond", lambda t: t.ssd.read_into(t.buffer, 0, at=4096, nbytes=8192), "ArgumentError", "nbytes 8192: the buffer has 4096 bytes from 4096 on"),
    ("read_0", lambda t: t.ssd.read(0, 0), "ArgumentError", "nbytes 0: must be more than 0"),
    ("read_beyond", lambda t: t.ssd.read(0, 1 << 40), "ArgumentError", "offset 0 and 1099511627776 bytes"),
    ("write_text", lambda t: t.ssd.write(0, "text"), "ArgumentTypeError", "data of type str"),
    ("write_short", lambda t: t.ssd.write(0, b"x"), "ArgumentError", "nbytes 1: must be more than 0 and a multiple"),
    ("result_text", lambda t: t.ssd.read_into(t.buffer, 0).result("soon"), "ArgumentTypeError", "timeout of type str: must be seconds"),
]

KERNELS = [
    ("attach_target", lambda t: t.ssd.attach("gpu"), "ArgumentError", "target 'gpu': expected cpu, ptx, ptx:OPTIONS"),
    ("attach_gpu", lambda t: t.ssd.attach("cuda:99"), "Error", "target cuda:99"),
    ("attach_sharing", lambda t: t.ssd.attach(sharing="mine"), "ArgumentError", "sharing mine: must be shared or exclusive"),
    ("attach_exclusive", lambda t: t.ssd.attach(queues=1, warps=2), "ArgumentError", "^warps 2 on 1 exclusive queues: each warp needs a queue of its own"),
    ("attach_queues_0", lambda t: t.ssd.attach(queues=0), "ArgumentError", "queues 0: must be from 1"),
    ("attach_depth", lambda t: t.ssd.attach(iodepth=65536), "ArgumentError", "iodepth 65536: must be from 1 to 65535"),
    ("closed_queues", lambda t: t.gone.buffer(512), "ClosedError", "queues of soft:size=1m: was closed before"),
    ("closed_lease", lambda t: t.gone.lease(), "ClosedError", "queues of soft:size=1m: was closed before"),
    ("lease_beyond", lambda t: t.queues.lease((0, 1 << 40)), "ArgumentError", r"lease of LBAs 0\.\.1099511627776: must lie in"),
    ("lease_number", lambda t: t.queues.lease(5), "ArgumentTypeError", "lbas of type int: must be a tuple"),
    ("compile_bytes", lambda t: warpbell.compile(b"x"), "ArgumentTypeError", "source of type bytes"),
    ("compile_target", lambda t: warpbell.compile("", target="tpu"), "ArgumentError", "target 'tpu': expected"),
    ("compile_empty", lambda t: warpbell.compile(""), "Error", "kernel"),
    ("load_nothing", lambda t: warpbell.load("/nowhere/kernels.so"), "Error", "/nowhere/kernels.so"),
    ("volume_of_none", lambda t: warpbell.Volume([]), "ArgumentError", "SSDs of a volume 0: must be 1 to"),
    ("volume_twice", lambda t: warpbell.Volume([t.queues, t.queues]), "ArgumentError", "SSDs of a volume .*: must each be another namespace"),
    ("volume_text", lambda t: warpbell.Volume("x"), "ArgumentTypeError", "^queues of type str: must be a list of warpbell.Queues"),
    ("cache_of_ssd", lambda t: warpbell.PageCache(t.ssd, pages=1), "ArgumentTypeError", "^queues of type warpbell.Ssd: must be warpbell.Queues"),
    ("load_number", lambda t: warpbell.load(5), "ArgumentTypeError", "^path of type int: must be the path of a file"),
    ("volume_layout", lambda t: warpbell.Volume([t.queues], layout="raid"), "ArgumentError", "layout raid: must be stripe, replicate or concatenate"),
    ("volume_chunk", lambda t: warpbell.Volume([t.queues], chunk_bytes=100), "ArgumentError", "chunk_bytes 100: must be a multiple of 512"),
    ("cache_page", lambda t: warpbell.PageCache(t.queues, pages=4, page_bytes=100), "ArgumentError", "page_bytes of a cache 100: must be a power of two, and at least a block of 512 bytes"),
    ("cache_0", lambda t: warpbell.PageCache(t.queues, pages=0), "ArgumentError", "pages 0: must be from 1"),
]

ALL = [*OPEN, *BUFFERS, *IO, *KERNELS]


@pytest.mark.parametrize(("call", "kind", "line"), [row[1:] for row in ALL], ids=[row[0] for row in ALL])
def test_a_wrong_call_raises_one_line(things: Things, call: Call, kind: str, line: str) -> None:
    expected = getattr(warpbell, kind)
    with pytest.raises(expected) as caught:
        call(things)
    text = str(caught.value)
    assert re.search(line, text), text
    assert "\n" not in text and len(text) < 1000
    if expected is not warpbell.Error:
        assert type(caught.value) is expected
    assert things.ssd.read(0, 512) == bytes(512), "the SSD goes on"


def test_there_are_as_many_as_we_say() -> None:
    assert len(ALL) >= 60 and len({row[0] for row in ALL}) == len(ALL)


def test_every_kind_of_rust_has_its_class() -> None:
    kinds = warpbell._warpbell._kinds()
    assert set(kinds) == {name for name in warpbell.__all__ if name.endswith("Error") and name not in ("Error", "BenchError")}
    for name, error in kinds.items():
        assert type(error) is getattr(warpbell, name) and isinstance(error, warpbell.Error)
        assert str(error) == "object value: limit"
    natural = {"ArgumentError": ValueError, "ArgumentTypeError": TypeError, "ExportedError": BufferError, "WaitTimeoutError": TimeoutError,
               "RefusedError": PermissionError, "CommandError": OSError, "DeviceError": OSError, "ClosedError": ValueError}
    for name, base in natural.items():
        assert issubclass(getattr(warpbell, name), base)


def test_a_locked_file_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(4096))
    with warpbell.open(f"soft:file={file}", allow_write=str(file)):
        with pytest.raises(warpbell.RefusedError, match=str(file)):
            warpbell.open(f"soft:file={file}", allow_write=str(file))
