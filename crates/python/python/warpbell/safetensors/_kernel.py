"""Reads blocks through a kernel of ours: its warps make the commands, over queues that were attached for them."""

from __future__ import annotations

import ctypes
import functools

from .._warpbell import Buffer, Program, Queues, Ssd
from .._warpbell import compile as compile_kernel
from ..errors import ArgumentError, CommandError

_SOURCE = """
#include <warpbell/warpbell.cuh>
using namespace warpbell;
struct load_args { warpbell_namespace_ref ns; warpbell_buffer_ref data, answers; uint64_t first, blocks, step; };

// Each lane reads `step` blocks at a time, the lanes of a warp together. The first failure of each lane is its answer.
WARPBELL_KERNEL(load_blocks, load_args) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, port::block_index());
    const uint64_t stride = 32u * args.step, mine = port::lane() * args.step;
    status answer;
    for (uint64_t begin = port::block_index() * stride; begin < args.blocks; begin += port::grid_blocks() * stride) {
        optional<extent> wanted;
        dma_span to(args.data);
        if (begin + mine < args.blocks) {
            const uint64_t left = args.blocks - begin - mine, count = left < args.step ? left : args.step;
            wanted = extent{lba(args.first + begin + mine), static_cast<uint32_t>(count)};
            to = to.subspan((begin + mine) * ssd.block_bytes(), count * ssd.block_bytes());
        }
        const status s = read_each(this_warp(), ssd, wanted, to);
        if (answer.ok()) { answer = s; }
    }
    dma_span(args.answers).data<uint64_t>()[port::block_index() * 32u + port::lane()] = answer.bits;
    ssd.detach(this_warp());
}
"""
_COMMAND_BYTES = 128 << 10
_TARGETS = ("cpu", "ptx")


@functools.cache
def _program(target: str) -> Program:
    return compile_kernel(_SOURCE, target=target, name="warpbell_safetensors.cu")


class KernelReader:
    """Reads through queues, which must be exclusive, as they are by default. One thread may use it at a time."""

    def __init__(self, ssd: Ssd, queues: Queues) -> None:
        if queues.target not in _TARGETS:
            raise ArgumentError(f"queues on {queues.target}: must be on {' or '.join(_TARGETS)}, whose memory the host reaches")
        self._ssd, self._queues = ssd, queues
        self._program = _program(queues.target)
        # As many warps as queues: each has one of its own.
        self._warps = len(queues.counters())
        self._answers = queues.buffer(max(self._warps * 32 * 8, ssd.block_size))
        # Memory of the queues is refused by any other SSD.
        ssd.read_into(self._answers, 0, nbytes=ssd.block_size).result()

    def read(self, begin: int, nbytes: int, what: str) -> Buffer:
        """Whole blocks. The memory stays the queues' until they are closed."""
        block = self._ssd.block_size
        data = self._queues.buffer(nbytes)
        step = max(1, min(_COMMAND_BYTES, self._ssd.max_transfer_bytes or _COMMAND_BYTES) // block)
        numbers = [ctypes.c_uint64(number) for number in (begin // block, nbytes // block, step)]
        launch = self._program.launch(
            self._queues, "load_blocks", self._queues.namespace, data, self._answers, *numbers, grid=self._warps, block=32
        )
        launch.wait()
        with memoryview(self._answers) as view, view.cast("Q") as answers:
            failed = next((answer for answer in answers[: self._warps * 32] if answer), None)
        if failed is not None:
            failure = CommandError(f"{what}: a command of the kernel was answered with status {failed:#x}")
            failure.status = failed
            raise failure
        return data
