"""Shows what Warpbell does on this machine, and checks it: `python -m warpbell.demo`."""

from __future__ import annotations

import ctypes
import importlib.util
import sys

import warpbell

KERNEL = """
#include <warpbell/warpbell.cuh>
using namespace warpbell;
struct sum_args { warpbell_namespace_ref ns; warpbell_buffer_ref data, sums; uint64_t blocks; };

WARPBELL_KERNEL(sum_blocks, sum_args) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
    const dma_span mine = dma_span(args.data).subspan(port::lane() * ssd.block_bytes(), ssd.block_bytes());
    optional<extent> wanted;
    if (port::lane() < args.blocks) { wanted = extent{lba(port::lane()), 1}; }
    const status s = read_each(this_warp(), ssd, wanted, mine);
    uint64_t sum = 0;
    for (uint32_t i = 0; wanted && s.ok() && i < ssd.block_bytes(); ++i) { sum += mine.data<uint8_t>()[i]; }
    dma_span(args.sums).data<uint64_t>()[port::lane()] = s.ok() ? sum : s.bits;
    ssd.detach(this_warp());
}
"""


def show_io(ssd: warpbell.Ssd) -> None:
    """Writes and reads by futures, many in flight."""
    with ssd.buffer(1 << 20) as wrote, ssd.buffer(1 << 20) as read:
        with memoryview(wrote) as view:
            view[:] = bytes(range(256)) * (len(view) // 256)
        piece = 64 << 10
        writes = [ssd.write_from(wrote, at, at=at, nbytes=piece) for at in range(0, wrote.nbytes, piece)]
        assert sum(future.result() for future in writes) == wrote.nbytes
        ssd.flush()
        reads = [ssd.read_into(read, at, at=at, nbytes=piece) for at in range(0, read.nbytes, piece)]
        assert sum(future.result() for future in reads) == read.nbytes
        assert bytes(memoryview(read)) == bytes(memoryview(wrote))
    print(f"futures: {len(writes)} writes and {len(reads)} reads of {piece} bytes came back as written")


def show_numpy(ssd: warpbell.Ssd) -> None:
    """An array over a buffer, and an array's own memory as a buffer: no copies."""
    if importlib.util.find_spec("numpy") is None:
        print("numpy: not installed, not shown")
        return
    import numpy

    buffer = ssd.buffer(4096)
    array = numpy.from_dlpack(buffer)
    assert array.ctypes.data == buffer.address
    array[:4] = (1, 2, 3, 4)
    assert bytes(memoryview(buffer)[:4]) == b"\1\2\3\4"
    mine = numpy.zeros(1024, numpy.float32)
    with ssd.register(mine) as registered:
        ssd.write_from(buffer, 8192).result()
        ssd.read_into(registered, 8192).result()
        assert mine.view(numpy.uint8)[:4].tolist() == [1, 2, 3, 4]
    print(f"numpy: from_dlpack has the buffer's own address, {buffer.address:#x}; an array was filled by the SSD")


def show_kernel(ssd: warpbell.Ssd) -> None:
    """A kernel that reads by itself, on the CPU target."""
    reason = warpbell.what_works()["cpu"]
    if reason is not None:
        print(f"kernel: not shown: {reason}")
        return
    blocks = 32
    ssd.write(0, bytes(lane for lane in range(blocks) for _ in range(ssd.block_size)))
    program = warpbell.compile(KERNEL, name="demo.cu")
    with ssd.attach("cpu") as queues:
        data, sums = queues.buffer(blocks * ssd.block_size), queues.buffer(blocks * 8)
        launch = program.launch(queues, "sum_blocks", queues.namespace, data, sums, ctypes.c_uint64(blocks))
        seconds = launch.wait(60)
        with memoryview(sums) as view, view.cast("Q") as found:
            assert found.tolist() == [lane * ssd.block_size for lane in range(blocks)]
    print(f"kernel: {blocks} lanes read a block each and summed it, in {seconds * 1e3:.1f} ms")


def main() -> int:
    for name, reason in warpbell.what_works().items():
        print(f"{name}: {'works' if reason is None else reason}")
    with warpbell.open("soft:size=64m") as ssd:
        print(f"opened {ssd.name}: {ssd.blocks} blocks of {ssd.block_size} bytes, {ssd.info.model}")
        show_io(ssd)
        show_numpy(ssd)
        show_kernel(ssd)
    try:
        ssd.read(0, 512)
    except warpbell.ClosedError as error:
        print(f"after close: {error}")
    else:
        raise AssertionError("a closed SSD was read")
    print("demo passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
