"""Memory of a GPU: of the SSD's own, of other packages' arrays, and their streams.

The PTX machine has such memory in this process. What only CUDA's own has runs in a process whose driver is the fake one
of the tests.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import warpbell

PAGE = 64 << 10
PATTERN = bytes(i * 7 % 251 for i in range(PAGE))


@pytest.fixture
def on_gpu() -> Iterator[warpbell.Ssd]:
    """An SSD whose data and rings lie in the memory of the PTX machine."""
    with warpbell.open("soft:size=16m", rings="hbm", data="hbm", gpu="ptx") as ssd:
        ssd.write(0, PATTERN)
        yield ssd


class Array:
    """What CuPy, torch and Numba show of their arrays."""

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str = "|u1", **more: Any) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3, **more}


class Tensor:
    """A tensor that says where it is, by DLPack alone."""

    def __init__(self, device: tuple[int, int]) -> None:
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **_asked: object) -> object:
        raise AssertionError("nobody asks for what cannot be reached")


def test_an_ssd_reads_and_writes_memory_of_a_gpu(on_gpu: warpbell.Ssd) -> None:
    first, second = on_gpu.buffer(PAGE), on_gpu.buffer(PAGE)
    assert on_gpu.read_into(first, 0).result() == PAGE
    assert first.copy_to_host() == PATTERN
    assert first.copy_to_host(512, 3) == PATTERN[512:515]
    first.copy_from_host(b"warp", 4)
    on_gpu.write_from(first, PAGE).result()
    on_gpu.read_into(second, PAGE, at=512, nbytes=512).result()
    assert second.copy_to_host(0, 1024) == bytes(512) + PATTERN[:4] + b"warp" + PATTERN[8:512]


def test_the_host_has_no_view_of_it(on_gpu: warpbell.Ssd) -> None:
    buffer = on_gpu.buffer(4096)
    for view in (memoryview, numpy.from_dlpack, lambda buffer: buffer.__dlpack_device__()):
        with pytest.raises(BufferError, match="^buffer of 4096 bytes: lies in the memory of ptx, where the host has no pointer"):
            view(buffer)
    assert not hasattr(buffer, "__cuda_array_interface__"), "CUDA does not reach the PTX machine"


def test_buffers_of_the_host_are_copied_too(ssd: warpbell.Ssd) -> None:
    array = numpy.zeros(1024, numpy.uint8)[4:]
    buffer = ssd.register(array)
    buffer.copy_from_host(numpy.arange(8, dtype=numpy.uint8), 2)
    assert array[:12].tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0]
    assert buffer.copy_to_host(2, 4) == bytes((0, 1, 2, 3))
    assert not hasattr(buffer, "__cuda_array_interface__")
    with pytest.raises(warpbell.ArgumentError, match="^data of 8 bytes: the buffer has 4 bytes from 1016 on$"):
        buffer.copy_from_host(bytes(8), 1016)
    with pytest.raises(warpbell.ArgumentError, match="^nbytes 5: must be from 0 to 4$"):
        buffer.copy_to_host(1016, 5)
    with pytest.raises(warpbell.ArgumentTypeError, match="^data of type int: must be bytes"):
        buffer.copy_from_host(5)
    buffer.close()
    with pytest.raises(warpbell.ClosedError):
        buffer.copy_to_host()


@pytest.mark.parametrize("typestr, shape, strides", [("|u1", (4096,), None), ("<f4", (2, 512), None), ("<f4", (2, 512), (2048, 4)), ("<M8[ns]", (512,), (8,))])
def test_memory_of_others_is_registered_where_it_is(
    on_gpu: warpbell.Ssd, typestr: str, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    theirs = on_gpu.buffer(3 * PAGE)
    array = Array(theirs.address + PAGE + 1024, shape, typestr, strides=strides, stream=1)
    ours = on_gpu.register(array)
    assert (ours.nbytes, ours.address) == (4096, theirs.address + PAGE + 1024)
    assert on_gpu.read_into(ours, 512).result() == 4096
    assert theirs.copy_to_host(PAGE, 8192) == bytes(1024) + PATTERN[512:4608] + bytes(8192 - 1024 - 4096)
    kept = weakref.ref(array)
    del array
    assert kept() is not None, "the SSD reaches its memory"
    ours.close()
    assert kept() is None


def test_arrays_of_one_page_are_each_kept(on_gpu: warpbell.Ssd) -> None:
    theirs = on_gpu.buffer(PAGE)
    arrays = [Array(theirs.address + at, (512,)) for at in (0, 512)]
    buffers = [on_gpu.register(array) for array in arrays]
    kept = [weakref.ref(array) for array in arrays]
    arrays.clear()
    assert all(array() is not None for array in kept), "one mapping, two owners"
    buffers.pop(0).close()
    assert kept[0]() is None and kept[1]() is not None
    on_gpu.read_into(buffers[0], 0).result()
    assert theirs.copy_to_host(512, 512) == PATTERN[:512]


def test_what_cannot_be_registered_is_named(on_gpu: warpbell.Ssd, ssd: warpbell.Ssd) -> None:
    theirs = on_gpu.buffer(2 * PAGE)
    at = theirs.address
    host = numpy.zeros(4 * PAGE, numpy.uint8)
    for array, line in (
        (Array(at, (64,), data=(at, True)), "is read-only"),
        (Array(at, (64,), mask=host), "has a mask"),
        (Array(at, (64,), "|O"), "holds items of no fixed size"),
        (Array(at, (4, 64), "<f4", strides=(512, 4)), "is not contiguous"),
        (Array(at, (4, 64), "<f4", strides=(4,)), "is not contiguous"),
        (Array(at, (0,)), "has no bytes"),
        (Array(at + 1024, (2**64 - 1024,)), "is larger than memory"),
        (Array(at + 2, (64,)), f"begins at {at + 2:#x}: must begin at a multiple of 4 bytes"),
    ):
        with pytest.raises(warpbell.ArgumentError, match=f"^register test_gpu.Array: {line}"):
            on_gpu.register(array)
    with pytest.raises(warpbell.ArgumentError, match=r"^ptx: \d+ bytes at 0x[0-9a-f]+: its allocation has"):
        on_gpu.register(Array(at, (64 * PAGE,)))
    with pytest.raises(warpbell.ArgumentError, match="no memory that CUDA knows"):
        on_gpu.register(Array(host.ctypes.data // 4 * 4, (64,)))
    with pytest.raises(warpbell.ArgumentError, match="in the memory of a GPU: there is no route to it: the SSD was opened with data in host memory; open it"):
        ssd.register(Array(at, (64,)))
    with pytest.raises(warpbell.ArgumentError, match="in the memory of cuda:0: there is no route to it: .* in the memory of ptx; open it"):
        on_gpu.register(Tensor((2, 0)))
    with pytest.raises(warpbell.ArgumentError, match="in the memory of rocm:1: there is no route to it: copy it to the host"):
        on_gpu.register(Tensor((10, 1)))
    with pytest.raises(warpbell.ArgumentError, match="only host memory is registered"):
        on_gpu.register(host)


class CudaStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, 2)


class TorchStream:
    cuda_stream = 1


class CupyStream:
    ptr = 0


@pytest.mark.parametrize("stream", [0, 1, CudaStream(), TorchStream(), CupyStream()])
def test_io_waits_for_a_stream(on_gpu: warpbell.Ssd, stream: object) -> None:
    buffer = on_gpu.buffer(512)
    on_gpu.write_from(buffer, PAGE, stream=stream).result()
    assert on_gpu.read_into(buffer, 0, stream=stream).result() == 512
    assert buffer.copy_to_host() == PATTERN[:512]


def test_wrong_streams_are_named(on_gpu: warpbell.Ssd, ssd: warpbell.Ssd) -> None:
    buffer = on_gpu.buffer(512)
    with pytest.raises(warpbell.ArgumentTypeError, match="^stream of type list: must be a stream of torch"):
        on_gpu.read_into(buffer, 0, stream=[])
    with pytest.raises(warpbell.ArgumentTypeError, match="^stream of type bool: must be"):
        on_gpu.read_into(buffer, 0, stream=True)
    with pytest.raises(warpbell.ArgumentError, match="^stream 0x1: the buffer of 512 bytes lies in host memory"):
        ssd.read_into(ssd.buffer(512), 0, stream=1)
    with pytest.raises(warpbell.DeviceError, match="ptx: stream 0x1234"):
        on_gpu.read_into(buffer, 0, stream=0x1234)
    on_gpu.read_into(buffer, 0).result()
    buffer.close()


@pytest.mark.parametrize(
    "options, line",
    [
        ({"data": "attic"}, "^data 'attic': expected host"),
        ({"rings": "hbm"}, "^rings 'hbm': of which GPU\\? Name it in `gpu`"),
        ({"data": "hbm", "gpu": "cpu"}, "^gpu 'cpu': it has no memory of its own"),
        ({"gpu": "ptx"}, "^gpu 'ptx': it goes with rings or data"),
        ({"gpu": "tpu"}, "^target 'tpu': expected"),
        ({"doorbells": "loud"}, "^doorbells 'loud': expected"),
    ],
)
def test_wrong_places_are_named(options: dict[str, Any], line: str) -> None:
    with pytest.raises(warpbell.ArgumentError, match=line):
        warpbell.open("soft:size=1m", **options)


@pytest.fixture(scope="module")
def on_ptx() -> warpbell.Program:
    """Kernels of the tests, for the PTX machine."""
    reason = warpbell.what_works()["ptx"]
    if reason is not None:
        pytest.skip(reason)
    source = pathlib.Path(__file__).with_name("kernels.cu").read_text()
    return warpbell.compile(source, target="ptx", name="kernels.cu", defines={"ADDED": 7})


def test_a_kernel_reads_into_memory_of_others(on_gpu: warpbell.Ssd, on_ptx: warpbell.Program) -> None:
    theirs = on_gpu.buffer(2 * PAGE)
    with on_gpu.attach("ptx") as queues:
        data = queues.register(Array(theirs.address, (PAGE,)))
        sums = queues.register(Array(theirs.address + PAGE, (32,), "<u8"))
        on_ptx.launch(queues, "sum_blocks", queues.namespace, data, sums, numpy.uint64(32)).wait()
        found = numpy.frombuffer(theirs.copy_to_host(PAGE, 256), numpy.uint64)
    assert found.tolist() == [sum(PATTERN[at : at + 512]) + 7 for at in range(0, PAGE // 4, 512)]


@pytest.mark.parametrize("stream", [0, CudaStream(), TorchStream(), CupyStream()])
def test_launches_on_a_stream_keep_its_order(on_gpu: warpbell.Ssd, on_ptx: warpbell.Program, stream: object) -> None:
    with on_gpu.attach("ptx") as queues:
        word, beside, data, sums = (queues.buffer(nbytes) for nbytes in (4096, 4096, 32 * 512, 256))
        beside.copy_from_host(b"\1")
        arguments = (queues.namespace, data, sums, numpy.uint64(32))
        first = on_ptx.launch(queues, "wait_for_word", numpy.uint64(word.address), stream=stream)
        second = on_ptx.launch(queues, "sum_blocks", *arguments, stream=stream)
        on_ptx.launch(queues, "wait_for_word", numpy.uint64(beside.address)).wait(60)
        time.sleep(0.05)
        assert not first.done() and not second.done(), "the second waits for the first, and others do not"
        word.copy_from_host(b"\1")
        second.wait(60)
        assert first.done()
        found = numpy.frombuffer(sums.copy_to_host(), numpy.uint64)
    assert found.tolist() == [sum(PATTERN[at : at + 512]) + 7 for at in range(0, 32 * 512, 512)]


def test_wrong_streams_of_launches_are_named(on_gpu: warpbell.Ssd, on_ptx: warpbell.Program, ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    with on_gpu.attach("ptx") as queues:
        word = numpy.uint64(queues.buffer(4096).address)
        with pytest.raises(warpbell.ArgumentTypeError, match="^stream of type list: must be a stream of torch"):
            on_ptx.launch(queues, "wait_for_word", word, stream=[])
        with pytest.raises(warpbell.DeviceError, match="^ptx: stream 0x1234: "):
            on_ptx.launch(queues, "wait_for_word", word, stream=0x1234)
    with ssd.attach("cpu") as queues, pytest.raises(warpbell.ArgumentError, match="^stream 0x0: kernel wait_for_word: target cpu has no CUDA"):
        program.launch(queues, "wait_for_word", numpy.uint64(queues.buffer(4096).address), stream=0)


def test_kernels_elsewhere_do_not_get_it(on_gpu: warpbell.Ssd, program: warpbell.Program) -> None:
    memory = on_gpu.buffer(4096)
    line = "^argument buffer of 4096 bytes: lies in the memory of ptx, which kernels on cpu do not reach$"
    with warpbell.open("soft:size=1m", data="hbm", gpu="ptx") as ssd, ssd.attach("cpu") as queues:
        own = ssd.buffer(4096)
        with pytest.raises(warpbell.ArgumentError, match=line):
            program.launch(queues, "layout", bytes(32), own)
    assert memory.nbytes == 4096


ON_CUDA = """
import ctypes, gc, warpbell
PATTERN = bytes(i * 7 % 251 for i in range(4096))
ssd = warpbell.open("soft:size=16m", data="hbm", gpu="cuda:0")
ssd.write(0, PATTERN)
buffer = ssd.buffer(4096)
ssd.read_into(buffer, 0).result()
assert buffer.__dlpack_device__() == (2, 0)
said = buffer.__cuda_array_interface__
assert said == {"shape": (4096,), "typestr": "|u1", "data": (buffer.address, False), "strides": None, "stream": None, "version": 3}

# By DLPack, with a second SSD.
class Tensor:
    def __init__(self, of):
        self.of = of
    def __dlpack_device__(self):
        return self.of.__dlpack_device__()
    def __dlpack__(self, **asked):
        assert asked.pop("stream") == 1
        return self.of.__dlpack__(stream=1, **asked)

other = warpbell.open("soft:size=1m", data="hbm", gpu="cuda:0")
same = other.register(Tensor(buffer))
assert (same.address, same.nbytes) == (buffer.address, 4096)
other.write_from(same, 512).result()
assert other.read(512, 4096) == PATTERN
try:
    buffer.close()
    raise SystemExit("closed under a tensor")
except warpbell.ExportedError:
    pass
same.close()
other.close()

# Whoever asked for the interface keeps the object: closed, the memory is still theirs.
address = buffer.address
buffer.close()
ssd.close()
gc.collect()
cuda = ctypes.CDLL("libcuda.so.1")
into, device, context, stream = ctypes.create_string_buffer(4096), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert cuda.cuMemcpyDtoHAsync_v2(into, ctypes.c_uint64(address), ctypes.c_size_t(4096), stream) == 0
assert cuda.cuStreamSynchronize(stream) == 0 and cuda.cuStreamDestroy_v2(stream) == 0
assert into.raw == PATTERN
MEMORY_TYPE = 2
known = lambda: cuda.cuPointerGetAttribute(ctypes.byref(device), MEMORY_TYPE, ctypes.c_uint64(address)) == 0
assert known()
del buffer
gc.collect()
assert not known(), "freed with the last reference"
assert cuda.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0 and cuda.cuDevicePrimaryCtxRelease_v2(0) == 0
"""


def test_memory_of_a_gpu_is_shown_as_cuda_has_it(tmp_path: pathlib.Path) -> None:
    library = os.environ.get("WARPBELL_FAKE_CUDA_LIBRARY")
    if library is None:
        pytest.skip("WARPBELL_FAKE_CUDA_LIBRARY names no driver to test with (scripts/lib/check-python does)")
    (tmp_path / "libcuda.so.1").symlink_to(library)
    places = f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}".strip(":")
    environment = {**os.environ, "LD_LIBRARY_PATH": places}
    done = subprocess.run([sys.executable, "-c", ON_CUDA], env=environment, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 violations, 0 hazards, 0 leaks" in done.stderr
