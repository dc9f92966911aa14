"""Kernels: compiled, launched over queues and volumes, with arguments that are packed as C does it."""

from __future__ import annotations

import ctypes
import pathlib
import struct
import shutil
import threading

import numpy
import pytest

import warpbell

BLOCKS = 32


def fill(ssd: warpbell.Ssd) -> None:
    ssd.write(0, bytes(lane for lane in range(BLOCKS) for _ in range(ssd.block_size)))


def words(buffer: warpbell.Buffer) -> list[int]:
    return numpy.frombuffer(buffer, numpy.uint64).tolist()


def test_a_program_knows_its_kernels(program: warpbell.Program) -> None:
    kernels = program.kernels
    of_volumes = {"volume_numbers", "copy", "store", "sum_cached_volume"}
    assert set(kernels) == {"sum_blocks", "layout", "wait_for_word", "sum_cached", "sum_tiles"} | of_volumes
    assert (kernels["sum_blocks"], kernels["layout"], kernels["wait_for_word"]) == (208, 80, 8)
    assert (program.target, program.code) == ("cpu", "machine code for the CPU")


@pytest.mark.parametrize("count", [numpy.uint64(BLOCKS), ctypes.c_uint64(BLOCKS), BLOCKS.to_bytes(8, "little")])
def test_a_kernel_reads_blocks(ssd: warpbell.Ssd, program: warpbell.Program, count: object) -> None:
    fill(ssd)
    with ssd.attach("cpu") as queues:
        data, sums = queues.buffer(BLOCKS * 512), queues.buffer(BLOCKS * 8)
        launch = program.launch(queues, "sum_blocks", queues.namespace, data, sums, count)
        assert 0 < launch.wait() < 600 and launch.done()
        assert words(sums) == [lane * 512 + 7 for lane in range(BLOCKS)]
        assert queues.counters() == [{"ticket": 32, "head": 32, "spurious": 0, "late": 0, "sqhd_mismatch": 0}]


def test_a_kernel_fills_memory_that_was_registered(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    fill(ssd)
    data, sums = numpy.zeros(BLOCKS * 512, numpy.uint8), numpy.zeros(BLOCKS, numpy.uint64)
    with ssd.attach() as queues:
        of_ssd, of_queues = ssd.register(data), queues.register(sums)
        program.launch(queues, "sum_blocks", queues.namespace, of_ssd, of_queues, numpy.uint64(BLOCKS)).wait()
    assert sums.tolist() == [lane * 512 + 7 for lane in range(BLOCKS)]
    assert data.reshape(BLOCKS, 512)[:, 0].tolist() == list(range(BLOCKS))


class Inner(ctypes.Structure):
    _fields_ = [("small", ctypes.c_uint8), ("word", ctypes.c_uint32), ("half", ctypes.c_uint16)]


@pytest.mark.parametrize(
    "fields",
    [
        (numpy.uint8(1), numpy.uint32(2), numpy.uint16(3), numpy.uint64(4), numpy.float32(1.25), bytes((1, 2, 3))),
        (ctypes.c_uint8(1), ctypes.c_uint32(2), ctypes.c_uint16(3), ctypes.c_uint64(4), ctypes.c_float(1.25), (ctypes.c_uint8 * 3)(1, 2, 3)),
        (Inner(1, 2, 3), numpy.uint64(4), numpy.array(1.25, numpy.float32), bytes((1, 2, 3))),
        (numpy.array((1, 2, 3), numpy.dtype("u1,u4,u2", align=True))[()], ctypes.c_uint64(4), ctypes.c_float(1.25), bytes((1, 2, 3))),
    ],
)
def test_arguments_are_packed_as_c_does_it(ssd: warpbell.Ssd, program: warpbell.Program, fields: tuple[object, ...]) -> None:
    with ssd.attach() as queues, queues.buffer(48) as out:
        program.launch(queues, "layout", *fields, out).wait()
        assert words(out) == [1, 2, 3, 4, 5, 1 + 2 * 256 + 3 * 65536]


def test_wrong_arguments_are_named(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    queues, other = ssd.attach(), warpbell.open("soft:size=1m")
    data, foreign = queues.buffer(4096), other.buffer(4096)
    size = r"^kernel sum_blocks: its struct has 208 bytes, and the arguments take 200 \(NamespaceRef 104 at 0, Buffer 48 at 104, Buffer 48 at 152\)$"
    with pytest.raises(warpbell.ArgumentError, match=size):
        program.launch(queues, "sum_blocks", queues.namespace, data, data)
    with pytest.raises(warpbell.ArgumentError, match="^kernel nothing: the program has "):
        program.launch(queues, "nothing")
    with pytest.raises(warpbell.ArgumentTypeError, match=r"^argument 3 of type int: .*numpy.uint32\(5\)"):
        program.launch(queues, "sum_blocks", queues.namespace, data, data, 5)
    with pytest.raises(warpbell.ArgumentTypeError, match=r"^argument 1 of type numpy.ndarray: .*kernels reach an array by a buffer of its memory: queues.register\(array\)$"):
        program.launch(queues, "sum_blocks", queues.namespace, numpy.zeros(4096), data, numpy.uint64(1))
    with pytest.raises(warpbell.ArgumentError, match="belongs to soft:size=1m, and the launch is over soft:size=64m"):
        program.launch(queues, "sum_blocks", queues.namespace, data, foreign, numpy.uint64(1))
    with pytest.raises(warpbell.ArgumentTypeError, match="^queues of type warpbell.Ssd"):
        program.launch(ssd, "layout")
    data.close()
    with pytest.raises(warpbell.ClosedError, match="^buffer of 4096 bytes: was closed before"):
        program.launch(queues, "sum_blocks", queues.namespace, data, data, numpy.uint64(1))
    queues.close()
    with pytest.raises(warpbell.ClosedError, match="^queues of soft:size=64m: was closed before"):
        program.launch(queues, "layout", bytes(80))


def test_a_source_that_does_not_compile_is_told_with_its_line() -> None:
    source = "#include <warpbell/warpbell.cuh>\nthis is no kernel;\n"
    with pytest.raises(warpbell.CompileError, match=r"^wrong.cu does not compile: .*wrong.cu:2.*error") as caught:
        warpbell.compile(source, name="wrong.cu")
    assert "\n" not in str(caught.value) and "wrong.cu:2" in caught.value.log


def test_headers_defines_and_cache_are_given(ssd: warpbell.Ssd, tmp_path: pathlib.Path) -> None:
    source = """
    #include <warpbell/warpbell.cuh>
    #include "mine.cuh"
    struct out_args { warpbell_buffer_ref out; };
    WARPBELL_KERNEL(store, out_args) { if (warpbell::port::lane() == 0) { warpbell::dma_span(args.out).data<uint64_t>()[0] = FROM_HEADER + ONE; } }
    """
    program = warpbell.compile(source, headers={"mine.cuh": "#define FROM_HEADER 41"}, defines=["ONE=1"], cache=tmp_path)
    assert any(tmp_path.iterdir())
    with ssd.attach() as queues, queues.buffer(8) as out:
        program.launch(queues, "store", out).wait()
        assert words(out) == [42]


def test_a_kernel_that_runs_keeps_its_queues_open(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    queues = ssd.attach()
    word = queues.buffer(4096)
    launch = program.launch(queues, "wait_for_word", ctypes.c_uint64(word.address))
    for close in (queues.close, ssd.close):
        with pytest.raises(warpbell.BusyError, match="^queues of soft:size=64m: 1 kernels still run: wait for their launches first$"):
            close()
    assert not launch.done()
    with pytest.raises(TimeoutError, match="^kernel wait_for_word: still runs after 10ms$"):
        launch.wait(0.01)
    waiters = [threading.Thread(target=launch.wait) for _ in range(4)]
    for waiter in waiters:
        waiter.start()
    memoryview(word)[0] = 1
    for waiter in waiters:
        waiter.join()
    assert launch.done()
    queues.close()


def test_queues_go_with_their_ssd(program: warpbell.Program) -> None:
    with warpbell.open("soft:size=1m") as ssd:
        queues = ssd.attach(queues=2, warps=2)
        buffer = queues.buffer(4096)
    assert queues.closed
    with pytest.raises(warpbell.ClosedError):
        queues.buffer(512)
    assert bytes(memoryview(buffer)) == bytes(4096)


def test_a_volume_is_over_several_ssds(program: warpbell.Program) -> None:
    with warpbell.open("soft:size=16m") as one, warpbell.open("soft:size=16m") as two:
        queues = [one.attach(), two.attach()]
        with warpbell.Volume(queues, layout="stripe", chunk_bytes=512) as volume:
            assert (volume.blocks, volume.block_size) == (65536, 512)
            data, answers = volume.buffer(32 * 512), queues[0].buffer(32 * 8)
            program.launch(volume, "volume_numbers", volume, data, answers).wait()
            assert words(answers) == [1000 + lane for lane in range(32)]
            assert [member["bytes_written"] for member in volume.report()] == [16 * 512, 16 * 512]
            assert int.from_bytes(data.read()[512:520], "little") == 1001
            with pytest.raises(warpbell.BusyError, match="1 leases or volumes of them are open"):
                one.close()
        assert int.from_bytes(two.read(0, 512)[:8], "little") == 1001
        for layout, blocks in (("replicate", 32768), ("concatenate", 65536)):
            with warpbell.Volume(queues, layout=layout) as volume:
                assert volume.blocks == blocks
        with pytest.raises(warpbell.ClosedError, match="^volume: was closed before$"):
            volume.buffer(512)


def test_a_kernel_reads_through_a_page_cache(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    values = numpy.arange(16 << 10, dtype=numpy.uint32)
    ssd.write(0, values)
    with ssd.attach(sharing="shared") as queues:
        cache = warpbell.PageCache(queues, pages=8, page_bytes=8192)
        assert (cache.buffer_bytes, cache.pages) == (8 * 8192, (64 << 20) // 8192)
        pages, sums = queues.buffer(cache.buffer_bytes), queues.buffer(32 * 8)
        program.launch(queues, "sum_cached", queues.namespace, pages, cache, sums, numpy.uint64(16 << 10)).wait()
        assert sum(words(sums)) == int(values.sum(dtype=numpy.uint64))
        report = cache.report()
        assert report["misses"] == 8 and report["hits"] > 0 and report["error"] is None
    with pytest.raises(warpbell.ClosedError):
        cache.report()


def test_a_lease_limits_what_a_kernel_reads(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    fill(ssd)
    queues = ssd.attach()
    data, sums = queues.buffer(BLOCKS * 512), queues.buffer(BLOCKS * 8)
    with queues.lease((0, 8), read_only=True, buffer=data) as lease:
        assert (lease.lbas, lease.read_only) == ((0, 8), True)
        program.launch(lease, "sum_blocks", lease, data, sums, numpy.uint64(8)).wait()
        assert words(sums)[:8] == [lane * 512 + 7 for lane in range(8)]
        program.launch(lease, "sum_blocks", lease, data, sums, numpy.uint64(9)).wait()
        assert words(sums)[8] != 8 * 512 + 7, "a block behind the lease was read"
        with pytest.raises(warpbell.BusyError, match="1 leases or volumes of them are open"):
            queues.close()
    with pytest.raises(warpbell.ClosedError, match="^lease: was closed before$"):
        program.launch(lease, "sum_blocks", lease, data, sums, numpy.uint64(8))
    with pytest.raises(warpbell.ArgumentError, match="^lease of LBAs 5..5: must begin before it ends$"):
        queues.lease((5, 5))
    queues.close()


def test_a_lease_of_a_registered_array_is_of_no_byte_beside_it(ssd: warpbell.Ssd) -> None:
    with ssd.attach() as queues:
        part = queues.register(numpy.zeros(4096, "u1")[1024:1536])
        iova = struct.unpack("<6Q", part.__warpbell_reference__())[2]
        with queues.lease(buffer=part) as lease:
            allowed = struct.pack("<2Q", iova, iova + 512)
            assert allowed in lease.__warpbell_reference__(), "the first IOVA, and the one behind the last"
        with pytest.raises(warpbell.ArgumentError, match="^queues 1099511627776: must be below 2\\^32$"):
            queues.lease(queues=(0, 1 << 40))


def test_references_of_other_queues_are_refused(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    refused = "the launch is over other queues, and keeps these alone$"
    with warpbell.open("soft:size=1m") as other:
        queues, foreign, shared = ssd.attach(), other.attach(), other.attach(sharing="shared")
        data = queues.buffer(4096)
        with pytest.raises(warpbell.ArgumentError, match="^argument namespace of queues of soft:size=1m: " + refused):
            program.launch(queues, "sum_blocks", foreign.namespace, data, data, numpy.uint64(1))
        with foreign.lease((0, 8)) as lease, pytest.raises(warpbell.ArgumentError, match="^argument lease of .*" + refused):
            program.launch(queues, "sum_blocks", lease, data, data, numpy.uint64(1))
        cache = warpbell.PageCache(shared, pages=8, page_bytes=512)
        with pytest.raises(warpbell.ArgumentError, match="^argument page cache of .*" + refused):
            program.launch(queues, "sum_cached", queues.namespace, data, cache, data, numpy.uint64(1))
        with warpbell.Volume([queues, foreign], chunk_bytes=512) as volume, warpbell.Volume([queues]) as own:
            buffer = volume.buffer(512)
            with pytest.raises(warpbell.ArgumentError, match="^argument volume of .*" + refused):
                program.launch(queues, "volume_numbers", volume, own.buffer(512), data)
            with pytest.raises(warpbell.ArgumentError, match="^argument volume buffer of .*" + refused):
                program.launch(own, "volume_numbers", own, buffer, data)


def test_what_references_name_is_kept_while_a_kernel_runs(ssd: warpbell.Ssd) -> None:
    source = """
    #include <warpbell/warpbell.cuh>
    struct held_args { warpbell_namespace_ref lease; warpbell_volume_ref volume; warpbell_volume_buffer_ref part; uint64_t stop; };
    WARPBELL_KERNEL(hold, held_args) {
        volatile uint32_t* stop = reinterpret_cast<volatile uint32_t*>(args.stop);
        while (*stop == 0) { warpbell::port::pause(); }
    }
    """
    program = warpbell.compile(source)
    queues = ssd.attach()
    word = queues.buffer(4096)
    volume, lease = warpbell.Volume([queues]), queues.lease((0, 8))
    launch = program.launch(queues, "hold", lease, volume, volume.buffer(512), ctypes.c_uint64(word.address))
    lease.close()
    for busy in (volume, queues):
        with pytest.raises(warpbell.BusyError, match="1 kernels still run"):
            busy.close()
    memoryview(word)[0] = 1
    launch.wait()
    volume.close()
    queues.close()


def test_a_volume_that_is_closed_has_no_bytes(ssd: warpbell.Ssd) -> None:
    with ssd.attach() as queues:
        with warpbell.Volume([queues]) as volume:
            buffer = volume.buffer(512)
            buffer.write(b"x" * 512)
            assert buffer.read() == b"x" * 512
        for call in (buffer.read, lambda: buffer.write(b"x")):
            with pytest.raises(warpbell.ClosedError, match="^volume: was closed before$"):
                call()


def test_other_threads_go_on_while_a_launch_is_dropped(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    with ssd.attach() as queues:
        word = queues.buffer(4096)
        launch = [program.launch(queues, "wait_for_word", ctypes.c_uint64(word.address))]
        dropping = threading.Thread(target=launch.clear)
        dropping.start()
        dropping.join(0.1)
        assert dropping.is_alive()
        with pytest.raises(warpbell.BusyError, match="1 kernels still run"):
            queues.close()
        memoryview(word)[0] = 1
        dropping.join()


def test_any_number_of_modules_for_the_cpu_is_loaded(tmp_path: pathlib.Path) -> None:
    """Memory for threads' own variables that a module wants at once is short: the second had none, once."""
    reason = warpbell.what_works()["cpu"]
    if reason is not None:
        pytest.skip(reason)
    source = "#include <warpbell/warpbell.cuh>\nstruct none { uint64_t out; };\nWARPBELL_KERNEL(number, none) { *reinterpret_cast<uint32_t*>(args.out) = NUMBER; }\n"
    warpbell.compile(source, name="number.cu", defines={"NUMBER": 40}, cache=tmp_path)
    module = next(file for file in tmp_path.rglob("*") if file.read_bytes()[16:18] == b"\x03\0")
    copies = [shutil.copy(module, tmp_path / f"copy{number}.so") for number in range(100)]
    programs = [warpbell.load(copy) for copy in copies]
    with warpbell.open("soft:size=1m") as ssd, ssd.attach() as queues:
        for program in programs:
            out = queues.buffer(4)
            program.launch(queues, "number", numpy.uint64(out.address)).wait(60)
            assert numpy.frombuffer(out, numpy.uint32)[0] == 40
