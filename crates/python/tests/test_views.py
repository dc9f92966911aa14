"""Views of buffers and buffers of arrays: one memory, no copies, nothing that dangles."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import pathlib
import weakref
from collections.abc import Callable

import numpy
import pytest

import warpbell


def test_numpy_has_the_same_address_and_both_see_writes(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(8192)
    by_dlpack, by_buffer = numpy.from_dlpack(buffer), numpy.frombuffer(buffer, numpy.uint8)
    assert by_dlpack.ctypes.data == by_buffer.ctypes.data == buffer.address
    by_dlpack[5] = 55
    memoryview(buffer)[6] = 66
    assert by_buffer[5:7].tolist() == by_dlpack[5:7].tolist() == [55, 66]
    ssd.write(0, b"z" * 512)
    ssd.read_into(buffer, 0, nbytes=512).result()
    assert by_dlpack[0] == ord("z")


def test_the_older_capsule_is_there_too(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(4096)

    class Old:
        """A consumer of before DLPack 1.0 asks without a version."""

        def __dlpack__(self, **_: object) -> object:
            return buffer.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return buffer.__dlpack_device__()

    view = numpy.from_dlpack(Old())
    assert view.ctypes.data == buffer.address and view.nbytes == 4096
    assert '"dltensor"' in repr(buffer.__dlpack__())
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(1, 1)))


def test_jax_has_the_same_address(ssd: warpbell.Ssd) -> None:
    jax_dlpack = pytest.importorskip("jax.dlpack")
    buffer = ssd.buffer(4096)
    memoryview(buffer)[:4] = b"jax!"
    view = jax_dlpack.from_dlpack(buffer)
    assert view.unsafe_buffer_pointer() == buffer.address
    assert bytes(numpy.asarray(view)[:4]) == b"jax!"
    # JAX never writes: what others write later is seen through its view, from the host and from the SSD.
    numpy.from_dlpack(buffer)[:4] = list(b"late")
    assert bytes(numpy.asarray(view)[:4]) == b"late" and view[:4].tolist() == list(b"late")
    ssd.write(0, b"disk" * 128)
    ssd.read_into(buffer, 0, nbytes=512).result()
    assert bytes(numpy.asarray(view)[:4]) == b"disk" and view[508:512].tolist() == list(b"disk")
    assert view.unsafe_buffer_pointer() == buffer.address
    with pytest.raises(warpbell.ExportedError, match="^buffer of 4096 bytes: 1 live views of it"):
        buffer.close()
    del view
    gc.collect()
    buffer.close()


def test_the_ssd_reads_what_jax_made(ssd: warpbell.Ssd) -> None:
    """The other way: an array of JAX is registered to be read from."""
    jax_numpy = pytest.importorskip("jax.numpy")
    numbers = jax_numpy.arange(1024, dtype="uint32").block_until_ready()
    with ssd.register(numbers, readonly=True) as registered:
        assert registered.address == numbers.unsafe_buffer_pointer()
        ssd.write_from(registered, 0).result()
    assert numpy.frombuffer(ssd.read(0, 4096), numpy.uint32).tolist() == list(range(1024))


def test_a_capsule_that_nobody_takes_frees_its_view(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(4096)
    for version in (None, (1, 0)):
        capsule = buffer.__dlpack__(max_version=version)
        with pytest.raises(BufferError, match="1 live views"):
            buffer.close()
        del capsule
        gc.collect()
    buffer.close()


def test_a_buffer_with_live_views_is_not_closed(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(4096)
    views = [memoryview(buffer), numpy.from_dlpack(buffer), numpy.frombuffer(buffer, numpy.uint8)]
    with pytest.raises(warpbell.ExportedError, match="^buffer of 4096 bytes: 3 live views of it: "):
        buffer.close()
    del views[1:]
    gc.collect()
    with pytest.raises(BufferError, match="1 live views"):
        buffer.close()
    views.pop().release()
    buffer.close()
    buffer.close()
    assert buffer.closed and len(buffer) == 4096


def test_views_outlive_the_ssd_and_the_buffers_name() -> None:
    ssd = warpbell.open("soft:size=1m")
    ssd.write(0, b"k" * 4096)
    buffer = ssd.buffer(4096)
    view = numpy.from_dlpack(buffer)
    ssd.read_into(buffer, 0).result()
    ssd.close()
    del ssd, buffer
    gc.collect()
    assert bytes(view) == b"k" * 4096
    view[:] = 1


def test_after_close_everything_raises() -> None:
    ssd = warpbell.open("soft:size=1m")
    buffer, other = ssd.buffer(4096), ssd.buffer(512)
    other.close()
    closed = "^buffer of 512 bytes: was closed before$"
    for use in (
        lambda: memoryview(other),
        lambda: numpy.frombuffer(other, numpy.uint8),
        lambda: numpy.from_dlpack(other),
        lambda: other.__dlpack__(max_version=(1, 0)),
        lambda: other.address,
        lambda: other.__enter__(),
        lambda: ssd.read_into(other, 0),
        lambda: ssd.write_from(other, 0),
        lambda: other.__warpbell_reference__(),
    ):
        with pytest.raises(warpbell.ClosedError, match=closed):
            use()
    ssd.close()
    ssd.close()
    for use in (
        lambda: ssd.buffer(512),
        lambda: ssd.register(bytearray(512)),
        lambda: ssd.read_into(buffer, 0),
        lambda: ssd.write_from(buffer, 0),
        lambda: ssd.read(0, 512),
        lambda: ssd.write(0, bytes(512)),
        lambda: ssd.flush(),
        lambda: ssd.attach(),
        lambda: ssd.__enter__(),
    ):
        with pytest.raises(warpbell.ClosedError, match="^ssd soft:size=1m: was closed before$"):
            use()
    assert bytes(memoryview(buffer)) == bytes(4096)


def objects() -> list[tuple[object, int]]:
    """Memory of many kinds, with its bytes."""
    return [
        (numpy.zeros(1 << 20, numpy.uint8), 1 << 20),
        (numpy.zeros((64, 32), numpy.float32), 8192),
        (numpy.zeros((64, 32), numpy.float32, order="F"), 8192),
        (numpy.zeros(4096, numpy.uint8)[512:1536], 1024),
        (bytearray(4096), 4096),
        (array.array("I", bytes(2048)), 2048),
        (mmap.mmap(-1, 8192), 8192),
        ((ctypes.c_uint32 * 128)(), 512),
    ]


@pytest.mark.parametrize("options", [{}, {"prp_only": True}])
def test_memory_of_all_kinds_is_registered(options: dict[str, bool]) -> None:
    with warpbell.open("soft:size=4m", **options) as ssd:
        for index, (thing, nbytes) in enumerate(objects()):
            data = bytes((index + i * 7) & 255 for i in range(nbytes))
            ssd.write(0, data)
            with ssd.register(thing) as buffer:
                assert buffer.nbytes == nbytes
                assert ssd.read_into(buffer, 0).result() == nbytes
                assert ssd.write_from(buffer, 1 << 20).result() == nbytes
            assert memoryview(thing).tobytes("A") == data
            assert ssd.read(1 << 20, nbytes) == data


def test_a_registered_object_stays_as_long_as_its_buffer(ssd: warpbell.Ssd) -> None:
    owner = bytearray(4096)
    buffer = ssd.register(owner)
    with pytest.raises(BufferError):
        owner.extend(b"more")
    del owner
    gc.collect()
    ssd.write(0, b"o" * 4096)
    ssd.read_into(buffer, 0).result()
    assert bytes(memoryview(buffer)) == b"o" * 4096
    again = numpy.zeros(4096, numpy.uint8)
    with ssd.register(again) as one, ssd.register(again) as two:
        assert one.address == two.address == again.ctypes.data


def test_a_closed_ssd_has_let_all_objects_go() -> None:
    owner, array = bytearray(4096), numpy.zeros(4096, numpy.uint8)
    gone = weakref.ref(array)
    with warpbell.open("soft:size=1m") as ssd:
        for thing in (owner, array):
            buffer = ssd.register(thing)
            ssd.read_into(buffer, 0).result()
            buffer.close()
        del thing, array, buffer
    owner.extend(b"more")
    gc.collect()
    assert gone() is None


class Tensor:
    """What torch is for this: DLPack without the buffer protocol."""

    def __init__(self, inner: numpy.ndarray, device: tuple[int, int] = (1, 0), old: bool = False) -> None:
        self.inner, self.device, self.old = inner, device, old

    def __dlpack__(self, **asked: object) -> object:
        if self.old and asked:
            raise TypeError("no such argument")
        return self.inner.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.mark.parametrize("old", [False, True])
def test_a_tensors_own_memory_is_registered(ssd: warpbell.Ssd, old: bool) -> None:
    inner = numpy.zeros((8, 128), numpy.float32)
    with ssd.register(Tensor(inner, old=old)) as buffer:
        assert (buffer.address, buffer.nbytes) == (inner.ctypes.data, 4096)
        ssd.write(0, b"\0\0\x80\x3f" * 1024)
        ssd.read_into(buffer, 0).result()
    assert (inner == 1.0).all()


@pytest.mark.parametrize("wrap", [lambda array: array, lambda array: Tensor(array)])
def test_what_may_not_be_written_is_only_read_from(ssd: warpbell.Ssd, wrap: Callable[[object], object]) -> None:
    fixed = numpy.arange(4096, dtype=numpy.uint8)
    fixed.flags.writeable = False
    buffer = ssd.register(wrap(fixed), readonly=True)
    assert buffer.readonly and memoryview(buffer).readonly and not numpy.from_dlpack(buffer).flags.writeable
    ssd.write_from(buffer, 0).result()
    assert ssd.read(0, 4096) == fixed.tobytes()
    for refused in (lambda: ssd.read_into(buffer, 0), lambda: buffer.copy_from_host(b"1"), buffer.__warpbell_reference__):
        with pytest.raises(warpbell.ArgumentError, match="^buffer of 4096 bytes: was registered as read-only$"):
            refused()
    with pytest.raises(BufferError, match="is read-only, which tensors can say since DLPack 1.0"):
        buffer.__dlpack__()
    with ssd.register(b"x" * 512 + b"y" * 512, readonly=True) as text:
        ssd.write_from(text, 0, at=text.nbytes - 512).result()
    assert ssd.read(0, 512) == b"y" * 512
    assert not ssd.buffer(512).readonly


def test_what_cannot_be_registered_is_refused(ssd: warpbell.Ssd) -> None:
    whole = numpy.zeros((64, 64), numpy.float32)
    fixed = numpy.zeros(4096, numpy.uint8)
    fixed.flags.writeable = False
    for thing, line in (
        (whole[:, ::2], "register numpy.ndarray: is not contiguous"),
        (Tensor(whole[:, ::2]), r"register test_views.Tensor: is not contiguous"),
        (fixed, "register numpy.ndarray: is read-only"),
        (b"x" * 4096, "register bytes: is read-only"),
        (Tensor(whole, (2, 1)), r"register test_views.Tensor in the memory of cuda:1: there is no route to it"),
        (numpy.zeros(4096, numpy.uint8)[1:513], "register numpy.ndarray: begins at 0x[0-9a-f]+: must begin at a multiple of 4"),
        (numpy.zeros(0, numpy.uint8), "register numpy.ndarray: has no bytes"),
    ):
        with pytest.raises(warpbell.ArgumentError, match=f"^{line}"):
            ssd.register(thing)
    for thing in (7, "text", None, [1, 2], ssd.buffer(512)):
        with pytest.raises(warpbell.ArgumentTypeError, match="^register of type "):
            ssd.register(thing)


def test_an_interrupted_call_of_dlpack_is_not_made_again(ssd: warpbell.Ssd) -> None:
    class Interrupted(Tensor):
        def __dlpack__(self, **asked: object) -> object:
            if asked:
                raise KeyboardInterrupt
            return super().__dlpack__(**asked)

    with pytest.raises(KeyboardInterrupt):
        ssd.register(Interrupted(numpy.zeros(512, numpy.uint8)))


class Raw(ctypes.Structure):
    """DLManagedTensor of dlpack.h, of one dimension."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]


class RawTensor:
    def __init__(self, items: int, bits: int) -> None:
        self.memory = numpy.zeros(4096, numpy.uint8)
        self.shape = (ctypes.c_int64 * 1)(items)
        shape = ctypes.addressof(self.shape)
        self.raw = Raw(self.memory.ctypes.data, (1, 0), 1, 1, bits, 1, shape, None, 0, None, None)

    def __dlpack__(self) -> object:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.raw), b"dltensor", None)


def test_tensors_of_half_bytes_and_of_too_many_are_refused(ssd: warpbell.Ssd) -> None:
    with ssd.register(RawTensor(4096, 8)) as buffer:
        assert buffer.nbytes == 4096
    with pytest.raises(warpbell.ArgumentError, match="^register test_views.RawTensor: has items of 4 bits: must be whole bytes$"):
        ssd.register(RawTensor(4096, 4))
    with pytest.raises(warpbell.ArgumentError, match="^register test_views.RawTensor: is not contiguous, or larger than memory"):
        ssd.register(RawTensor(1 << 62, 64))


LAYOUT = (numpy.uint8(1), numpy.uint32(2), numpy.uint16(3), numpy.uint64(4), numpy.float32(0.5), b"abc")


class Named(numpy.ndarray):  # type: ignore[misc,name-defined]
    """An array that may have attributes."""


@pytest.mark.parametrize("keep", ["nothing", "a view", "a transfer", "a kernel"])
def test_an_array_that_leads_to_its_own_buffer_is_collected(tmp_path: pathlib.Path, program: warpbell.Program, keep: str) -> None:
    """Not while something else has the memory: a view of it, I/O, or queues whose kernels were handed it."""
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "delay"\nby = "500ms"\nopcode = "read"\n')
    with warpbell.open(f"soft:size=1m,faults={plan}") as ssd, ssd.attach() as queues:
        array = numpy.zeros(4096, numpy.uint8).view(Named)
        array.buffer = ssd.register(array)
        gone = weakref.ref(array)
        kept: list[object] = []
        if keep == "a view":
            kept.append(numpy.from_dlpack(array.buffer))
        elif keep == "a transfer":
            kept.append(ssd.read_into(array.buffer, 0))
        elif keep == "a kernel":
            program.launch(queues, "layout", *LAYOUT, array.buffer).wait(60)
        del array
        gc.collect()
        assert (gone() is None) == (keep == "nothing")
        if keep == "a transfer":
            kept.pop().result(60)  # type: ignore[attr-defined]
        kept.clear()
    del queues
    gc.collect()
    assert gone() is None
