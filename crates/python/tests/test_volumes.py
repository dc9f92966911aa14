"""Volumes as the host reads and writes them, and what kernels use over several SSDs."""

from __future__ import annotations

import asyncio
import pathlib
import time
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

import warpbell

numpy = pytest.importorskip("numpy")

@contextmanager
def attached(names: Sequence[str], timeout: float = 30.0) -> Iterator[list[warpbell.Queues]]:
    with ExitStack() as opened:
        ssds = [opened.enter_context(warpbell.open(name, timeout=timeout)) for name in names]
        yield [opened.enter_context(ssd.attach(sharing="shared")) for ssd in ssds]


def faulty(folder: pathlib.Path, number: int, text: str) -> str:
    """The name of an SSD with this fault."""
    plan = folder / f"plan{number}.toml"
    plan.write_text(f"[[fault]]\n{text}\n")
    return f"soft:size=1m,faults={plan}"


def words(buffer: warpbell.Buffer) -> list[int]:
    return numpy.frombuffer(buffer, numpy.uint64).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("layout", ["stripe", "replicate", "concatenate"])
@pytest.mark.parametrize("names", [["soft:size=1m", "soft:size=512k"], ["soft:size=256k,block=4096", "soft:size=640k", "soft:size=384k"]], ids=["two", "mixed"])
def test_kernels_read_what_the_host_wrote(program: warpbell.Program, names: list[str], layout: str) -> None:
    dice = random.Random(7)
    with attached(names) as queues, warpbell.Volume(queues, layout=layout, chunk_bytes=8192) as volume:
        block = volume.block_size
        data, seen = volume.buffer(volume.nbytes), volume.buffer(16 * block)
        content = dice.randbytes(volume.nbytes)
        data.write(content)
        assert volume.write_from(data, 0).result(60) == volume.nbytes
        data.write(bytes(volume.nbytes))
        assert volume.read_into(data, 0).result(60) == volume.nbytes
        assert data.read() == content
        answer = queues[0].buffer(512)
        for _ in range(20):
            blocks = dice.randint(1, 16)
            first = dice.randint(0, volume.blocks - blocks)
            launch = program.launch(volume, "copy", volume, seen, answer, numpy.uint64(first), numpy.uint32(blocks))
            launch.wait(60)
            assert words(answer)[0] == 0
            assert seen.read()[: blocks * block] == content[first * block : (first + blocks) * block]
        volume.flush()


def test_buffers_of_a_volume_are_buffers_and_may_be_an_arrays(program: warpbell.Program) -> None:
    with attached(["soft:size=1m", "soft:size=1m,mdts=1"]) as queues, warpbell.Volume(queues, chunk_bytes=4096) as volume:
        whole = numpy.zeros(16384 + 64, numpy.uint8)
        array = whole[32 : 32 + 16384]
        own, other = volume.register(array), volume.buffer(16384)
        assert isinstance(own, warpbell.Buffer) and (own.nbytes, own.address) == (16384, array.ctypes.data)
        assert numpy.from_dlpack(other).ctypes.data == numpy.frombuffer(other, numpy.uint8).ctypes.data == other.address
        content = numpy.random.default_rng(5).integers(0, 256, 16384, dtype=numpy.uint8)
        numpy.from_dlpack(other)[:] = content
        assert volume.write_from(other, 8192).result(60) == 16384
        assert volume.read_into(own, 8192 + 512, at=512).result(60) == 15872
        assert (array[512:] == content[512:]).all() and not array[:512].any()
        assert not whole[:32].any() and not whole[-32:].any()
        # A kernel finds the same bytes in it.
        answer = queues[0].buffer(512)
        program.launch(volume, "copy", volume, own, answer, numpy.uint64(16), numpy.uint32(32)).wait(60)
        assert words(answer)[0] == 0 and (array == content).all()
        view = memoryview(own)
        with pytest.raises(warpbell.ExportedError, match="^buffer of 16384 bytes: 1 live views of it"):
            own.close()
        view.release()
        own.close()
        for call in (own.read, own.view, lambda: own.write(b""), lambda: volume.read_into(own, 0)):
            with pytest.raises(warpbell.ClosedError, match="^buffer of 16384 bytes: was closed before$"):
                call()
        with pytest.raises(warpbell.ClosedError):
            program.launch(volume, "copy", volume, own, answer, numpy.uint64(0), numpy.uint32(1))
        with pytest.raises(warpbell.ArgumentTypeError, match="is a buffer already$"):
            volume.register(other)  # type: ignore[arg-type]


def test_any_part_of_a_volume_by_futures_of_several_threads() -> None:
    dice = random.Random(8)
    with attached(["soft:size=1m", "soft:size=1m", "soft:size=1m"]) as queues, warpbell.Volume(queues, chunk_bytes=4096) as volume:
        content = bytearray(dice.randbytes(volume.nbytes))
        whole = volume.buffer(volume.nbytes)
        whole.write(bytes(content))
        volume.write_from(whole, 0).result(60)
        parts = volume.buffer(64 * 4096)

        async def some() -> None:
            places = [dice.randrange(volume.blocks - 8) * 512 for _ in range(64)]
            reads = [volume.read_into(parts, place, at=index * 4096, nbytes=4096) for index, place in enumerate(places)]
            for read in reads:
                assert await read == 4096
            found = numpy.frombuffer(parts.view(), numpy.uint8)
            for index, place in enumerate(places):
                assert found[index * 4096 : (index + 1) * 4096].tobytes() == content[place : place + 4096]

        for _ in range(5):
            asyncio.run(some())


UNREADABLE = 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [8, 15]'


def test_what_one_replica_cannot_read_the_next_does(tmp_path: pathlib.Path) -> None:
    names = [faulty(tmp_path, 0, UNREADABLE), "soft:size=1m", faulty(tmp_path, 2, UNREADABLE)]
    with attached(names) as queues, warpbell.Volume(queues, layout="replicate", chunk_bytes=2048) as volume:
        data = volume.buffer(1 << 20)
        content = random.Random(9).randbytes(1 << 20)
        data.write(content)
        volume.write_from(data, 0).result(60)
        for _ in range(3):
            data.write(bytes(1 << 20))
            future = volume.read_into(data, 0)
            assert future.result(60) == 1 << 20 and future.exception() is None
            assert data.read() == content
        assert all(member["present"] for member in volume.report())
        # Nobody waits: the SSDs' own threads go on with the next replica.
        data.write(bytes(1 << 20))
        future = volume.read_into(data, 4096, nbytes=4096)
        deadline = time.monotonic() + 60
        while repr(future).endswith("in flight>"):
            assert time.monotonic() < deadline
        assert future.result(0) == 4096 and data.read()[:4096] == content[4096:8192]


def test_a_read_that_no_replica_can_do_has_the_first_failure(tmp_path: pathlib.Path) -> None:
    second = UNREADABLE.replace("Unrecovered Read Error", "Access Denied")
    names = [faulty(tmp_path, 0, UNREADABLE), faulty(tmp_path, 1, second)]
    with attached(names) as queues, warpbell.Volume(queues, layout="replicate", chunk_bytes=2048) as volume:
        data = volume.buffer(4096)
        # Chunk 2, which is blocks 8 to 11, is read from the first SSD first; chunk 3 from the second.
        for offset, said in ((4096, "Unrecovered Read"), (6144, "Access Denied")):
            with pytest.raises(warpbell.CommandError, match=f"^read of 2048 bytes at {offset}, namespace 1 of soft:.*{said}") as caught:
                volume.read_into(data, offset, nbytes=2048).result(60)
            assert caught.value.status is not None
        assert volume.read_into(data, 0).result(60) == 4096


def test_a_replica_without_an_answer_is_not_followed_by_another(tmp_path: pathlib.Path) -> None:
    silent = faulty(tmp_path, 0, 'kind = "drop"\nopcode = "read"\nlba = [0, 0]\ncount = 1')
    with attached([silent, "soft:size=1m"], timeout=0.3) as queues, warpbell.Volume(queues, layout="replicate") as volume:
        data = volume.buffer(4096)
        with pytest.raises(warpbell.CommandError, match="no completion within 300ms$") as caught:
            volume.read_into(data, 0).result(60)
        assert caught.value.status is None
        assert volume.read_into(data, 0).result(60) == 4096


def test_a_write_fails_where_one_replica_does(tmp_path: pathlib.Path) -> None:
    names = ["soft:size=1m", faulty(tmp_path, 1, 'kind = "fail"\nstatus = "Write Fault"\nopcode = "write"\nlba = 8')]
    with attached(names) as queues, warpbell.Volume(queues, layout="replicate") as volume:
        data = volume.buffer(8192)
        with pytest.raises(warpbell.CommandError, match="^write of 8192 bytes at 0, namespace 1 of soft:size=1m,faults=.*Write Fault"):
            volume.write_from(data, 0).result(60)
        assert volume.write_from(data, 16 * 512).result(60) == 8192


def test_the_host_reads_no_replica_that_kernels_have_dropped(program: warpbell.Program, tmp_path: pathlib.Path) -> None:
    names = [faulty(tmp_path, 0, 'kind = "fail"\nstatus = "Write Fault"\nopcode = "write"\nlba = 8\ncount = 1'), "soft:size=1m"]
    with attached(names) as queues, warpbell.Volume(queues, layout="replicate", chunk_bytes=512) as volume:
        data, answer = volume.buffer(512), queues[0].buffer(512)
        data.write(b"x" * 512)
        program.launch(volume, "store", volume, data, answer, numpy.uint64(8)).wait(60)
        assert words(answer)[0] == 0
        assert [member["present"] for member in volume.report()] == [False, True]
        # Block 8 would be read from the first SSD, which does not have it.
        data.write(bytes(512))
        assert volume.read_into(data, 8 * 512).result(60) == 512
        assert data.read() == b"x" * 512


def test_files_are_written_only_if_they_were_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(1 << 20))
    with attached([f"soft:file={file}", "soft:size=1m"]) as queues, warpbell.Volume(queues, layout="replicate") as volume:
        data = volume.buffer(512)
        with pytest.raises(warpbell.RefusedError, match="allow_write"):
            volume.write_from(data, 0)
        assert volume.read_into(data, 0).result(60) == 512


def test_io_goes_on_when_its_volume_was_closed() -> None:
    with attached(["soft:size=16m,profile=tlc", "soft:size=16m,profile=tlc"]) as queues:
        volume = warpbell.Volume(queues)
        data = volume.buffer(4 << 20)
        future = volume.read_into(data, 0)
        volume.close()
        for one in queues:
            one.close()
        assert future.result(60) == 4 << 20
        with pytest.raises(warpbell.ClosedError, match="^volume: was closed before$"):
            volume.read_into(data, 0)


def test_wrong_transfers_of_volumes_are_refused_by_name() -> None:
    with attached(["soft:size=1m", "soft:size=1m"]) as queues:
        with warpbell.Volume(queues) as volume, warpbell.Volume(queues[:1]) as other:
            data, foreign, plain = volume.buffer(8192), other.buffer(512), queues[0].buffer(512)
            for call, line in [
                (lambda: volume.read_into(data, 100), "^offset 100: must be a multiple of the block size of the volume, 512 bytes$"),
                (lambda: volume.read_into(data, 0, nbytes=0), "^nbytes 0: must be more than 0 and a multiple of"),
                (lambda: volume.read_into(data, 0, nbytes=700), "^nbytes 700: must be more than 0 and a multiple of"),
                (lambda: volume.read_into(data, 0, nbytes=8704), "^nbytes 8704: the buffer has 8192 bytes from 0 on$"),
                (lambda: volume.read_into(data, 0, at=2), "^at 2: must be a multiple of 4 bytes$"),
                (lambda: volume.write_from(data, (2 << 20) - 512), r"^offset 2096640 and 8192 bytes: the volume has 2097152 bytes$"),
                (lambda: volume.write_from(foreign, 0), "^volume buffer of 512 bytes: belongs to another volume"),
            ]:
                with pytest.raises(warpbell.ArgumentError, match=line):
                    call()
            with pytest.raises(warpbell.ArgumentTypeError, match="^buffer of type warpbell.Buffer: must be a warpbell.VolumeBuffer"):
                volume.read_into(plain, 0)  # type: ignore[arg-type]


def test_a_page_cache_is_over_a_volume(program: warpbell.Program) -> None:
    values = numpy.arange(32 << 10, dtype=numpy.uint32)
    with attached(["soft:size=1m", "soft:size=1m"]) as queues, warpbell.Volume(queues, chunk_bytes=4096) as volume:
        data = volume.buffer(values.nbytes)
        data.write(values.tobytes())
        volume.write_from(data, 0).result(60)
        cache = warpbell.PageCache(volume, pages=4, page_bytes=8192, kept=(0, 1))
        assert (cache.buffer_bytes, cache.pages) == (4 * 8192, 256)
        pages, sums = volume.buffer(cache.buffer_bytes), queues[0].buffer(32 * 8)
        program.launch(volume, "sum_cached_volume", volume, pages, cache, sums, numpy.uint64(len(values))).wait(60)
        assert sum(words(sums)) == int(values.sum(dtype=numpy.uint64))
        report = cache.report()
        assert (report["misses"], report["write_backs"], report["prefetched_used"], report["error"]) == (16, 0, 0, None)
        with warpbell.Volume(queues[:1]) as other, pytest.raises(warpbell.ArgumentError, match="^argument page cache of .* over other queues"):
            program.launch(other, "sum_cached_volume", other, other.buffer(512), cache, sums, numpy.uint64(0))
    with pytest.raises(warpbell.ClosedError, match="^volume: was closed before$"):
        cache.report()


def test_a_kernel_streams_tiles_by_a_schedule(program: warpbell.Program) -> None:
    values = numpy.arange(16 << 10, dtype=numpy.uint32)
    order = [0, 1, 0, 2, 3, 1, 7]
    with warpbell.open("soft:size=1m") as ssd, ssd.attach(sharing="shared") as queues:
        ssd.write(0, values)
        schedule = warpbell.TileSchedule(queues, [(tile, tile * 16, 16) for tile in order], slots=3)
        report = schedule.report()
        assert (report["steps"], report["tiles"], report["loads"]) == (7, 5, report["loaded_bytes"] // 8192)
        assert (schedule.slot_bytes, schedule.ring_bytes) == (8192, 3 * 8192)
        ring, sums = queues.buffer(schedule.ring_bytes), queues.buffer(32 * 8)
        launch = program.launch(queues, "sum_tiles", queues.namespace, ring, schedule, sums, shared_bytes=schedule.shared_bytes(2))
        launch.wait(60)
        assert sum(words(sums)) == sum(int(values[tile * 2048 : (tile + 1) * 2048].sum(dtype=numpy.uint64)) for tile in order)
        again = warpbell.TileSchedule.from_text(queues, schedule.to_text())
        assert again.to_text() == schedule.to_text() and again.report() == report
        rows = warpbell.TileSchedule(queues, numpy.array([[0, 0, 1, 4, 8], [1, 1, 1, 4, 8]]))
        assert rows.slot_bytes == 4 * 512
    with pytest.raises(warpbell.ClosedError):
        program.launch(queues, "sum_tiles", queues.namespace, ring, schedule, sums)


def test_wrong_schedules_are_refused_by_name() -> None:
    with warpbell.open("soft:size=1m") as ssd, warpbell.open("soft:size=1m,block=4096") as other:
        queues, large = ssd.attach(), other.attach()
        text = warpbell.TileSchedule(queues, [(0, 0, 8)]).to_text()
        for call, line in [
            (lambda: warpbell.TileSchedule(queues, [(0, 0)]), "^fields of a tile 2: must be 3"),
            (lambda: warpbell.TileSchedule(queues, [(0, 0, 1 << 32)]), "^blocks of a tile 4294967296: must be below 2.32$"),
            (lambda: warpbell.TileSchedule(queues, [(0, 0, 0)]), "^tile 1 rows of 0 blocks: must have 1 to 32 rows"),
            (lambda: warpbell.TileSchedule(queues, [(0, 0, 8), (0, 8, 8)]), "^tile 0: must be the same blocks wherever it is used$"),
            (lambda: warpbell.TileSchedule(queues, [], slots=33), "^slots of a ring of tiles 33: must be 1 to 32$"),
            (lambda: warpbell.TileSchedule(queues, [], slots=1), "^tiles loaded ahead 1: must be less than the 1 slots$"),
            (lambda: warpbell.TileSchedule.from_text(large, text), "^block_bytes of a tile schedule 512: must be 4096"),
            (lambda: warpbell.TileSchedule.from_text(queues, "tiles"), "line 1"),
            (lambda: warpbell.TileSchedule(queues, []).shared_bytes(33), "^stages 33: must be from 1 to 32$"),
            (lambda: warpbell.PageCache(queues, pages=1, kept=(2, 1)), "^kept 2..1: must not end before it begins$"),
        ]:
            with pytest.raises(warpbell.ArgumentError, match=line):
                call()
        for call in (lambda: warpbell.TileSchedule(queues, 5), lambda: warpbell.TileSchedule(queues, [5])):  # type: ignore[arg-type,list-item]
            with pytest.raises(warpbell.ArgumentTypeError, match="^tiles of type int: must be tuples"):
                call()
        with pytest.raises(warpbell.ArgumentTypeError, match="^queues of type warpbell.Ssd: must be warpbell.Queues or a warpbell.Volume$"):
            warpbell.TileSchedule(ssd, [])  # type: ignore[arg-type]
