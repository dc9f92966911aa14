"""Files of an ext4: by the host, by kernels, through a page cache, and as records."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy
import pytest

import warpbell
from warpbell import records

WORDS = 40_000
HOLE = slice(4096, 12_288)

SOURCE = """
#include <warpbell/array.cuh>
#include <warpbell/file_cache.cuh>
#include <warpbell/warpbell.cuh>
using namespace warpbell;
struct read_args { warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref data; uint64_t offset; };
WARPBELL_KERNEL(read_blocks, read_args) {
    const warpbell_buffer_ref memory = args.data;
    session<sharing::shared> ssd(this_warp(), args.ns, 0);
    const file f(args.file);
    const dma_span mine = dma_span(memory).subspan(port::lane() * 512u, 512);
    const status s = read_each(this_warp(), ssd, f, optional<u64>(args.offset + port::lane() * 512u), mine);
    if (!s.ok()) { mine.data<uint32_t>()[0] = ~0u; }
    ssd.detach(this_warp());
}
struct sum_args { warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref pages; warpbell_cache_ref cache;
    warpbell_buffer_ref sums; uint64_t count; };
WARPBELL_KERNEL(sum_words, sum_args) {
    const warpbell_buffer_ref memory = args.pages;
    session<sharing::shared> ssd(this_warp(), args.ns, 0);
    file_source<sharing::shared> source(ssd, file(args.file));
    page_cache<decltype(source), page_access::read_only> pages(this_warp(), args.cache, source, dma_span(memory));
    array_view<uint32_t, decltype(pages)> x(pages, 0, args.count);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < args.count; i += 32u) { sum += x[i + port::lane()]; }
    reinterpret_cast<uint64_t*>(args.sums.data)[port::lane()] = sum;
    pages.detach(this_warp());
    ssd.detach(this_warp());
}
"""


def words() -> numpy.ndarray:
    data = numpy.arange(WORDS, dtype=numpy.uint32) * numpy.uint32(2_654_435_761)
    data[HOLE] = 0
    return data


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ext4 with /data/words, which has a hole, and /data/whole, which has none."""
    folder = tmp_path_factory.mktemp("files")
    tree = folder / "tree" / "data"
    tree.mkdir(parents=True)
    data = words()
    with open(tree / "words", "wb") as file:
        file.truncate(data.nbytes)
        file.write(data[: HOLE.start].tobytes())
        file.seek(4 * HOLE.stop)
        file.write(data[HOLE.stop :].tobytes())
    with open(tree / "scattered", "wb") as file:  # a block of 1 KiB, a hole of 3, and again
        file.truncate(8192)
        file.write(bytes([1]) * 1024)
        file.seek(4096)
        file.write(bytes([2]) * 1024)
    (tree / "whole").write_bytes((numpy.arange(WORDS, dtype=numpy.uint32) + 7).tobytes())
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    command = ["mkfs.ext4", "-q", "-b", "1024", "-d", str(folder / "tree"), str(folder / "disk.img"), "8M"]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    return folder / "disk.img"


def test_a_file_is_read_by_the_host(image: Path) -> None:
    with warpbell.open(f"soft:file={image}") as ssd:
        file = ssd.open_file("/data/words")
        assert (file.path, file.size, file.ssd.name) == ("/data/words", WORDS * 4, ssd.name)
        assert "soft:file=" in repr(file) and "/data/words: 160000 bytes" in repr(file)
        held = numpy.frombuffer(image.read_bytes(), numpy.uint32)
        for offset, at, nbytes in file.extents:
            count = min(nbytes, file.size - offset) // 4
            assert numpy.array_equal(held[at // 4 : at // 4 + count], words()[offset // 4 : offset // 4 + count])
        assert file.read(0, file.size) == words().tobytes()
        assert file.read(4 * HOLE.start - 3, 5) == words().tobytes()[4 * HOLE.start - 3 :][:5]
        buffer = ssd.buffer(160_256)
        numpy.frombuffer(buffer, numpy.uint8)[:] = 0xEE
        assert file.read_into(buffer, 0).result() == 160_256
        assert numpy.frombuffer(buffer, numpy.uint8)[:160_000].tobytes() == words().tobytes()
        numpy.frombuffer(buffer, numpy.uint8)[:] = 0xEE
        file.read_into(buffer, 4 * HOLE.start - 512, at=1024, nbytes=1024).result()
        part = numpy.frombuffer(buffer, numpy.uint8)[1024:2048].tobytes()
        assert part == words().tobytes()[4 * HOLE.start - 512 :][:1024]
        # All of it is a hole: no command is sent.
        file.read_into(buffer, 4 * HOLE.start, nbytes=4096).result()
        assert not numpy.frombuffer(buffer, numpy.uint8)[:4096].any() and numpy.frombuffer(buffer, numpy.uint8)[4096] == 0xEE


def test_what_is_behind_the_end_of_a_file_is_zeroes(image: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.img"
    own.write_bytes(image.read_bytes())
    with warpbell.open(f"soft:file={own}") as ssd:
        offset, at, _ = ssd.open_file("/data/words").extents[-1]
    # Of a file that was longer once.
    with own.open("r+b") as disk:
        disk.seek(at + WORDS * 4 - offset)
        disk.write(b"\x77" * 256)
    with warpbell.open(f"soft:file={own}") as ssd, ssd.buffer(160_768) as buffer:
        assert ssd.read(at + 159_744 - offset, 512) == words().tobytes()[159_744:] + b"\x77" * 256
        file = ssd.open_file("/data/words")
        for start in (0, 159_744):
            view = numpy.frombuffer(buffer, numpy.uint8)
            view[:] = 0xEE
            nbytes = 160_256 - start
            assert file.read_into(buffer, start, at=512, nbytes=nbytes).result() == nbytes
            assert view[512 : 512 + nbytes].tobytes() == words().tobytes()[start:] + bytes(256)
            assert (view[:512] == 0xEE).all() and (view[512 + nbytes :] == 0xEE).all()
            del view


def test_pieces_that_are_no_whole_blocks_are_refused(image: Path) -> None:
    with warpbell.open(f"soft:file={image},block=4096") as ssd:
        file = ssd.open_file("/data/scattered")
        buffer = ssd.buffer(16_384)
        numpy.frombuffer(buffer, numpy.uint8)[:] = 0xEE
        with pytest.raises(warpbell.ArgumentError, match="scattered: 1024 bytes at offset 0 lie together, .*whole blocks of 4096 bytes"):
            file.read_into(buffer, 0, nbytes=8192)
        assert (numpy.frombuffer(buffer, numpy.uint8) == 0xEE).all()
        assert file.read(0, 8192) == b"".join(bytes([n]) * 1024 + bytes(3072) for n in (1, 2))
    with (
        records.MapDataset(f"soft:file={image},block=4096#/data/scattered", records.Fixed(count=8, record_bytes=1024)) as data,
        pytest.raises(warpbell.ArgumentError, match="scattered: 1024 bytes at offset 0 lie at byte .* whole blocks of 4096 bytes"),
    ):
        data[0]
    # What was opened for a file that is not there is closed again.
    with records.MapDataset(f"soft:file={image}#/data/none", records.Fixed(count=8, record_bytes=1024)) as data:
        for _ in range(3):
            with pytest.raises(warpbell.ArgumentError, match="there is no"):
                data[0]


def test_what_is_wrong_is_refused_by_name(image: Path, tmp_path: Path) -> None:
    with warpbell.open(f"soft:file={image}") as ssd:
        file = ssd.open_file("/data/words")
        buffer = ssd.buffer(512)
        for wrong, words_of in [
            (lambda: ssd.open_file("/data/none"), 'there is no "none"'),
            (lambda: ssd.open_file("/data"), "it is a folder"),
            (lambda: ssd.open_file("/data/words", partition=1), "partition 1: there is no partition table"),
            (lambda: ssd.open_file("/data/words", partition="1", manifest="m.json"), "manifest m.json: it has the partition"),
            (lambda: file.read(WORDS * 4, 1), "the file has 160000 bytes"),
            (lambda: file.read_into(buffer, 100), "offset 100: must be a multiple of the block size"),
            (lambda: file.read_into(buffer, 160_256), "/data/words has 160256 bytes"),
        ]:
            with pytest.raises(warpbell.ArgumentError, match=words_of.replace("(", "\\(")):
                wrong()
        with pytest.raises(warpbell.ArgumentTypeError, match="path of type int"):
            ssd.open_file(7)
        with pytest.raises(warpbell.Error, match="m.json"):
            ssd.open_file("/data/words", manifest=tmp_path / "m.json")
    with warpbell.open("soft:size=1m") as bare, pytest.raises(warpbell.RefusedError, match="none that is known begins here"):
        bare.open_file("/data/words")
    with pytest.raises(warpbell.ClosedError):
        file.read(0, 1)


def test_kernels_read_a_file_by_its_table(image: Path) -> None:
    program = warpbell.compile(SOURCE)
    with warpbell.open(f"soft:file={image},size=1m") as ssd, warpbell.open("soft:size=1m") as other:
        file = ssd.open_file("/data/words")
        with ssd.attach(sharing="shared") as queues, other.attach() as foreign:
            table = warpbell.FileTable(queues, file)
            assert table.size == file.size
            data = queues.buffer(32 * 512)
            offset = 4 * HOLE.start - 8 * 512
            program.launch(queues, "read_blocks", queues.namespace, table, data, numpy.uint64(offset)).wait(60)
            assert numpy.frombuffer(data, numpy.uint8).tobytes() == words().tobytes()[offset : offset + 32 * 512]
            cache = warpbell.PageCache(queues, pages=8, file=table)
            assert cache.pages == -(-file.size // 4096)
            pages, sums = queues.buffer(cache.buffer_bytes), queues.buffer(32 * 8)
            launch = program.launch(queues, "sum_words", queues.namespace, table, pages, cache, sums, numpy.uint64(WORDS))
            launch.wait(60)
            assert numpy.frombuffer(sums, numpy.uint64).sum() == words().astype(numpy.uint64).sum()
            assert cache.report()["misses"] == cache.pages and cache.report()["error"] is None
            with pytest.raises(warpbell.ArgumentError, match="file of namespace 1 of soft:file=.* cannot be used with namespace 1 of soft:size=1m"):
                warpbell.FileTable(foreign, file)
            with pytest.raises(warpbell.ArgumentError, match="must be a table for the queues of the cache"):
                warpbell.PageCache(foreign, pages=8, file=table)
            with pytest.raises(warpbell.ArgumentError, match="file table of"):
                program.launch(foreign, "read_blocks", foreign.namespace, table, foreign.buffer(32 * 512), numpy.uint64(0))


def test_records_of_a_file_are_a_dataset(image: Path) -> None:
    name = f"soft:file={image}#/data/whole"
    index = records.Fixed(count=99, record_bytes=1600, dtype="uint32", shape=(400,))
    with records.MapDataset(name, index) as dataset:
        for record in (0, 57, 98):
            assert numpy.array_equal(dataset[record], numpy.arange(400 * record, 400 * record + 400) + 7)
    with records.IterableDataset(name, index, batch_size=9, shuffle=True, seed=3) as stream:
        seen = {int(record): data for batch in stream for record, data in zip(batch.ids, batch.data)}
        assert len(seen) == 99 and all(numpy.array_equal(data, numpy.arange(400 * n, 400 * n + 400) + 7) for n, data in seen.items())


def test_datasets_refuse_holes_writes_and_several_files(image: Path) -> None:
    index = records.Fixed(count=100, record_bytes=1600)
    with records.MapDataset(f"soft:file={image}#/data/words", index) as dataset:
        assert bytes(dataset[0]) == words().tobytes()[:1600]
        with pytest.raises(warpbell.ArgumentError, match="#/data/words: is in a hole"):
            dataset[HOLE.start * 4 // 1600 + 1]
    name = f"soft:file={image}#/data/whole"
    with pytest.raises(warpbell.ArgumentError, match="names a file, which lies on one SSD"):
        records.MapDataset([name, name], index)
    with records.MapDataset(name, records.Fixed(count=101, record_bytes=1600)) as dataset, pytest.raises(warpbell.ArgumentError, match="160000 bytes"):
        dataset[0]
    with pytest.raises(warpbell.ArgumentError, match="a file is only read"):
        records.write(name, [b"x" * 512], options={"allow_write": str(image)})
    with records.MapDataset(name, index, options={"partition": 1}) as dataset, pytest.raises(warpbell.ArgumentError, match="there is no partition table"):
        dataset[0]
