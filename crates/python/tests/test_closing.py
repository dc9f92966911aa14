"""Closing buffers of queues and of volumes: refused while something has them, and then no SSD has their memory mapped."""

from __future__ import annotations

import ctypes
import gc
import pathlib
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack

import numpy
import pytest

import warpbell

CLOSED = "^volume: was closed before$"
PATTERN = bytes(range(256)) * 64
# warpbell_buffer_ref of abi.h.
REFERENCE_BYTES = 48
# What a kernel gets for Data Transfer Error: status code 04h, and that it is not to be tried again.
TRANSFER_ERROR = 0x4004


class Array(numpy.ndarray):  # type: ignore[misc,name-defined]
    """With weak references."""


class Two:
    """Two SSDs with queues, and a volume of these."""

    def __init__(self, opened: ExitStack) -> None:
        self.ssds = [opened.enter_context(warpbell.open("soft:size=1m")) for _ in range(2)]
        self.queues = [opened.enter_context(ssd.attach()) for ssd in self.ssds]
        self.volume = opened.enter_context(warpbell.Volume(self.queues, chunk_bytes=4096))
        for ssd in self.ssds:
            ssd.write(0, PATTERN)

    def settle(self) -> None:
        """The soft controller keeps unmapped memory until its next admin command."""
        for ssd in self.ssds:
            ssd.attach().close()
        gc.collect()


@pytest.fixture
def two() -> Iterator[Two]:
    with ExitStack() as opened:
        yield Two(opened)


def array(nbytes: int) -> numpy.ndarray:
    return numpy.zeros(nbytes, numpy.uint8).view(Array)


@pytest.mark.parametrize("of", ["queues", "volume"])
def test_a_closed_buffer_has_let_its_object_go(two: Two, program: warpbell.Program, of: str) -> None:
    theirs = array(32 * 512)
    gone = weakref.ref(theirs)
    buffer: warpbell.Buffer
    if of == "queues":
        buffer, answers = two.queues[1].register(theirs), two.queues[1].buffer(256)
        program.launch(two.queues[1], "sum_blocks", two.queues[1].namespace, buffer, answers, numpy.uint64(32)).wait(60)
    else:
        buffer, answers = two.volume.register(theirs), two.queues[0].buffer(256)
        program.launch(two.volume, "volume_numbers", two.volume, buffer, answers).wait(60)
        assert two.volume.read_into(buffer, 0).result(60) == 32 * 512  # type: ignore[arg-type]
    del theirs
    two.settle()
    assert gone() is not None, "open"
    buffer.close()
    buffer.close()
    two.settle()
    assert gone() is None, "the volume and the queues are open"


def test_no_ssd_reaches_the_buffers_of_a_closed_volume(two: Two, program: warpbell.Program) -> None:
    buffer = two.volume.buffer(32 * 512)
    (parts,) = numpy.frombuffer(buffer.__warpbell_reference__(), numpy.uint64, count=1, offset=8).tolist()
    references = [ctypes.string_at(parts + part * REFERENCE_BYTES, REFERENCE_BYTES) for part in range(2)]
    view = numpy.frombuffer(buffer, numpy.uint8)

    def read(part: int) -> list[int]:
        """Each lane's sum of a block, or the status of its read, by a kernel that still has the reference."""
        queues = two.queues[part]
        answers = queues.buffer(256)
        program.launch(queues, "sum_blocks", queues.namespace, references[part], answers, numpy.uint64(32)).wait(60)
        return numpy.frombuffer(answers, numpy.uint64).tolist()  # type: ignore[no-any-return]

    sums = [sum(PATTERN[at : at + 512]) + 7 for at in range(0, 32 * 512, 512)]
    assert read(0) == read(1) == sums and view.tobytes() == PATTERN
    two.volume.close()
    two.settle()
    view[:] = 0
    for part in range(2):
        assert set(read(part)) == {TRANSFER_ERROR}
    assert not view.any(), "no SSD wrote to it"


def test_views_of_a_closed_volumes_buffer_are_plain_memory(two: Two) -> None:
    buffer, theirs = two.volume.buffer(4096), array(4096)
    registered = two.volume.register(theirs)
    gone, other = weakref.ref(theirs), buffer.view()
    view = numpy.from_dlpack(buffer)
    two.volume.close()
    two.volume.close()
    view[:] = 5
    assert bytes(memoryview(buffer)) == bytes(memoryview(other)) == b"\5" * 4096
    for call in (
        buffer.read,
        buffer.view,
        lambda: buffer.write(b""),
        buffer.copy_to_host,
        lambda: buffer.copy_from_host(b"x"),
        other.copy_to_host,
        buffer.__warpbell_reference__,
        lambda: two.volume.read_into(buffer, 0),
        lambda: two.volume.buffer(512),
        lambda: two.volume.register(bytearray(512)),
        lambda: two.ssds[0].read_into(buffer, 0),
        lambda: two.ssds[0].write_from(other, 0),
    ):
        with pytest.raises(warpbell.ClosedError, match=CLOSED):
            call()
    with pytest.raises(warpbell.ExportedError, match="^buffer of 4096 bytes: 2 live views of it: delete arrays"):
        buffer.close()
    del view, theirs
    other.close()
    buffer.close()
    assert buffer.closed and not registered.closed
    two.settle()
    assert gone() is not None, "its buffer is memory of the host"
    registered.close()
    two.settle()
    assert gone() is None


def test_another_name_of_a_volumes_buffer_counts_as_a_view(two: Two) -> None:
    buffer = two.volume.buffer(4096)
    other = buffer.view()
    assert (other.address, other.nbytes) == (buffer.address, 4096)
    assert two.ssds[0].read_into(other, 0).result(60) == 4096
    assert buffer.read() == PATTERN[:4096]
    with pytest.raises(warpbell.ExportedError, match="^buffer of 4096 bytes: 1 live views of it"):
        buffer.close()
    other.close()
    again = buffer.view()
    del again
    buffer.close()
    with pytest.raises(warpbell.ClosedError, match="^buffer of 4096 bytes: was closed before$"):
        two.ssds[0].read_into(other, 0)


def test_what_kernels_may_use_is_not_closed(two: Two, program: warpbell.Program) -> None:
    queues = two.queues[0]
    word, own, volumes, ssds = queues.buffer(4096), queues.buffer(512), two.volume.buffer(512), two.ssds[0].buffer(512)
    launch = program.launch(queues, "wait_for_word", numpy.uint64(word.address))
    refused = "1 kernels still run that may use it: wait for their launches first$"
    for buffer in (own, volumes):
        with pytest.raises(warpbell.BusyError, match="^buffer of 512 bytes: " + refused):
            buffer.close()
        assert not buffer.closed
    with pytest.raises(warpbell.BusyError, match="^volume: 1 kernels still run over its queues: wait for their launches first$"):
        two.volume.close()
    assert two.volume.nbytes == 2 << 20
    ssds.close()
    memoryview(word)[0] = 1
    launch.wait(60)
    own.close()
    two.volume.close()
    volumes.close()


def test_kernels_keep_an_ssds_buffer_until_their_queues_are_closed(two: Two, program: warpbell.Program) -> None:
    theirs = array(32 * 512)
    gone, queues = weakref.ref(theirs), two.queues[0]
    buffer, answers = two.ssds[0].register(theirs), queues.buffer(256)
    program.launch(queues, "sum_blocks", queues.namespace, buffer, answers, numpy.uint64(32)).wait(60)
    buffer.close()
    del theirs
    two.settle()
    assert gone() is not None
    two.volume.close()
    queues.close()
    two.settle()
    assert gone() is None


@pytest.mark.parametrize("of", ["queues", "volume", "volume itself"])
def test_memory_stays_that_a_command_without_an_end_may_use(program: warpbell.Program, tmp_path: pathlib.Path, of: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "drop"\nopcode = "read"\nlba = 8\n')
    with warpbell.open(f"soft:size=1m,faults={plan}") as ssd:
        theirs = array(32 * 512)
        gone = weakref.ref(theirs)
        queues = ssd.attach(timeout=0.2, recovery=False)
        volume = warpbell.Volume([queues])
        buffer = queues.register(theirs) if of == "queues" else volume.register(theirs)
        answers = queues.buffer(256)
        if of == "queues":
            launch = program.launch(queues, "sum_blocks", queues.namespace, buffer, answers, numpy.uint64(32))
        else:
            launch = program.launch(volume, "volume_numbers", volume, buffer, answers)
        launch.wait(60)
        name = "volume" if of == "volume itself" else "buffer of 16384 bytes"
        said = f"^{name}: 1 commands on queue 1 have no completion yet, and may use its memory: it is closed, but that stays mapped until"
        with pytest.raises(warpbell.UndeletedError, match=said):
            volume.close() if of == "volume itself" else buffer.close()
        volume.close()
        buffer.close()
        assert buffer.closed
        del theirs
        ssd.attach().close()
        gc.collect()
        assert gone() is not None, "the SSD may still write to it"
        queues.close()
        ssd.attach().close()
        gc.collect()
        assert gone() is None


def test_the_interpreter_goes_on_while_queues_are_deleted(tmp_path: pathlib.Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "delay"\nby = "2s"\nadmin = "delete_i/o_submission_queue"\n')
    with warpbell.open(f"soft:size=1m,faults={plan}") as ssd:
        queues = ssd.attach()
        buffer = queues.buffer(4096)
        begin = time.monotonic()
        closing = threading.Thread(target=queues.close)
        closing.start()
        while not queues.closed:
            time.sleep(0.001)
        with pytest.raises(warpbell.ClosedError):
            queues.stop()
        assert time.monotonic() - begin < 1.5, "calls wait for the SSD to delete the queues"
        buffer.close()
        assert time.monotonic() - begin >= 2.0, "memory of queues that were not deleted yet was let go of"
        closing.join()
