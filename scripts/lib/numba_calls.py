"""A kernel in Python that makes every call of the flat layer, for scripts/lib/numba_check.py: as linked LTO-IR runs it.

One warp writes blocks and reads them back, a part of them by each kind of call, and an array behind them. Each lane notes
what each call said. On shared queues all succeed; on exclusive ones a thread of a warp that attached is refused.
"""

import contextlib
import ctypes
import pathlib
import tempfile

import numpy
import warpbell_host as host
import warpbell_numba as wb
from numba import cuda, types
from warpbell_numba import ALIGNMENT, ARRAY_WORDS, COMMAND_WORDS, SESSION_WORDS

LANES, BLOCK_BYTES = 32, 512
# By a thread, by a warp and by each lane, waiting and not; and as commands, by a thread, a warp and each lane.
PARTS = 9
PART_BYTES = LANES * BLOCK_BYTES
ARRAY_BYTES = LANES * 8

INVALID, OUT_OF_RANGE, NO_ROOM, TIMED_OUT, DIFFERS = 0x800C, 0x8004, 0x800E, 0x8001, 0x285
# The kernel's table.
NAMESPACE, FROM, TO, CACHE, PAGES, SAID = range(6)

# Each call in the kernel's order; who makes it, where it is not the warp, or None; and the status.
THREAD, OTHER = "a thread of the warp", "a thread that attached"
CALLS = [
    ("attach_warp", None, 0),
    ("write", THREAD, 0), ("read", THREAD, 0),
    ("write_warp", None, 0), ("read_warp", None, 0),
    ("write_each", None, 0), ("read_each", None, 0),
    ("write_async", THREAD, 0), ("wait", THREAD, 0), ("read_async", THREAD, 0), ("try_wait", THREAD, 0),
    ("write_async_warp", None, 0), ("wait_warp", None, 0), ("read_async_warp", None, 0), ("try_wait_warp", None, 0),
    ("write_async_each", None, 0), ("wait_each", None, 0), ("read_async_each", None, 0), ("try_wait_each", None, 0),
    ("execute", THREAD, 0), ("submit", THREAD, 0), ("wait_any", THREAD, 0),
    ("execute_warp", None, 0), ("submit_warp", None, 0), ("wait_warp", None, 0),
    ("execute_each", None, 0), ("submit_each", None, 0), ("wait_any_each", None, 0),
    ("flush", THREAD, 0), ("flush_warp", None, 0),
    ("flush_async", THREAD, 0), ("wait", THREAD, 0),
    ("flush_async_warp", None, 0), ("wait_warp", None, 0),
    # Of tokens that were refused: they have an answer at once.
    ("read_async", THREAD, OUT_OF_RANGE), ("cancel", THREAD, OUT_OF_RANGE),
    ("read_async_warp", None, OUT_OF_RANGE), ("cancel_warp", None, OUT_OF_RANGE),
    ("read_async_each", None, OUT_OF_RANGE), ("cancel_each", None, OUT_OF_RANGE),
    ("switch_to_successor", None, 0),
    ("array_open", None, 0),
    ("array_put_each", None, 0), ("array_get_each", None, 0), ("array_put", THREAD, 0), ("array_get", THREAD, 0),
    ("array_atomic_add", THREAD, 0), ("array_atomic_add_each", None, 0),
    ("array_get_each", None, OUT_OF_RANGE),
    ("array_flush", THREAD, 0), ("array_flush_warp", None, 0), ("array_close", None, 0),
    ("detach", None, 0),
    ("attach", OTHER, 0), ("read", OTHER, 0), ("detach", OTHER, 0),
    ("status_ok", None, 1), ("status_ok", None, 0),
    ("status_differs", None, 1), ("status_differs", None, 0),
    ("status_retryable", None, 1), ("status_retryable", None, 0),
    ("status_buffer_in_use", None, 1), ("status_buffer_in_use", None, 0),
]


@cuda.jit(device=True, inline="always")
def note(table, at, status):
    """Keeps what this lane was told, and returns the number of the next call."""
    wb.halves(table[SAID])[at * LANES + cuda.laneid] = status
    return at + 1


@cuda.jit(device=True, inline="always")
def place(part):
    """Block of a part of this lane."""
    return types.uint64(part * LANES + cuda.laneid)


@cuda.jit(device=True, inline="always")
def synchronous(table, s, at):
    """Calls that wait."""
    source, to = wb.pointer(table[FROM]), wb.pointer(table[TO])
    b = place(0)
    at = note(table, at, wb.write(s, b, 1, source, b * BLOCK_BYTES, 0))
    at = note(table, at, wb.read(s, b, 1, to, b * BLOCK_BYTES, 0))
    at = note(table, at, wb.write_warp(s, LANES, LANES, source, PART_BYTES, 0))
    at = note(table, at, wb.read_warp(s, LANES, LANES, to, PART_BYTES, 0))
    b = place(2)
    at = note(table, at, wb.write_each(s, b, 1, source, b * BLOCK_BYTES, 0))
    return note(table, at, wb.read_each(s, b, 1, to, b * BLOCK_BYTES, 0))


@cuda.jit(device=True, inline="always")
def background(table, s, t, at):
    """Calls that do not wait, and what waits for them."""
    source, to = wb.pointer(table[FROM]), wb.pointer(table[TO])
    b = place(3)
    at = note(table, at, wb.write_async(s, t, b, 1, source, b * BLOCK_BYTES, 0))
    at = note(table, at, wb.wait(s, t, 0))
    at = note(table, at, wb.read_async(s, t, b, 1, to, b * BLOCK_BYTES, 0))
    said = types.uint32(wb.PENDING)
    while said == wb.PENDING:
        said = wb.try_wait(s, t)
    at = note(table, at, said)
    cuda.syncwarp()
    at = note(table, at, wb.write_async_warp(s, t, 4 * LANES, LANES, source, 4 * PART_BYTES, 0))
    at = note(table, at, wb.wait_warp(s, t, 0))
    at = note(table, at, wb.read_async_warp(s, t, 4 * LANES, LANES, to, 4 * PART_BYTES, 0))
    said = types.uint32(wb.PENDING)
    while said == wb.PENDING:
        said = wb.try_wait_warp(s, t)
    at = note(table, at, said)
    b = place(5)
    at = note(table, at, wb.write_async_each(s, t, b, 1, source, b * BLOCK_BYTES, 0))
    at = note(table, at, wb.wait_each(s, t, 0))
    at = note(table, at, wb.read_async_each(s, t, b, 1, to, b * BLOCK_BYTES, 0))
    said = types.uint32(wb.PENDING)
    while cuda.any_sync(wb.ALL_LANES, said == wb.PENDING):
        now = wb.try_wait_each(s, t)
        said = now if said == wb.PENDING else said
    return note(table, at, said)


@cuda.jit(device=True, inline="always")
def command(words, operation, buffer, first, blocks):
    """Makes a command of the five words: of blocks from `first` on, and their place in the data. Writes are durable."""
    flags = types.uint64(wb.FUA if operation == wb.WRITE else 0)
    words[0] = types.uint64(operation) | flags << types.uint64(32)
    words[1] = first
    words[2] = buffer
    words[3] = first * types.uint64(BLOCK_BYTES)
    words[4] = types.uint64(blocks)


@cuda.jit(device=True, inline="always")
def commands(table, s, t, at):
    words = cuda.local.array(COMMAND_WORDS, types.uint64)
    index = cuda.local.array(1, types.uint64)
    c, i = wb.pointer(words), wb.pointer(index)
    command(words, wb.WRITE, table[FROM], place(6), 1)
    at = note(table, at, wb.execute(s, c, 0))
    command(words, wb.READ, table[TO], place(6), 1)
    at = note(table, at, wb.submit(s, t, c, 0))
    at = note(table, at, wb.wait_any(s, t, 1, i, 0))
    cuda.syncwarp()
    command(words, wb.WRITE, table[FROM], types.uint64(7 * LANES), LANES)
    at = note(table, at, wb.execute_warp(s, c, 0))
    command(words, wb.READ, table[TO], types.uint64(7 * LANES), LANES)
    at = note(table, at, wb.submit_warp(s, t, c, 0))
    at = note(table, at, wb.wait_warp(s, t, 0))
    command(words, wb.WRITE, table[FROM], place(8), 1)
    at = note(table, at, wb.execute_each(s, c, 0))
    command(words, wb.READ, table[TO], place(8), 1)
    at = note(table, at, wb.submit_each(s, t, c, 0))
    return note(table, at, wb.wait_any_each(s, t, 1, i, 0))


@cuda.jit(device=True, inline="always")
def flushes_and_refusals(table, s, t, at):
    to, behind = wb.pointer(table[TO]), types.uint64(1) << types.uint64(40)
    at = note(table, at, wb.flush(s, 0))
    at = note(table, at, wb.flush_warp(s, 0))
    at = note(table, at, wb.flush_async(s, t, 0))
    at = note(table, at, wb.wait(s, t, 0))
    at = note(table, at, wb.flush_async_warp(s, t, 0))
    at = note(table, at, wb.wait_warp(s, t, 0))
    at = note(table, at, wb.read_async(s, t, behind, 1, to, 0, 0))
    at = note(table, at, wb.cancel(s, t))
    at = note(table, at, wb.read_async_warp(s, t, behind, 1, to, 0, 0))
    at = note(table, at, wb.cancel_warp(s, t))
    at = note(table, at, wb.read_async_each(s, t, behind, 1, to, 0, 0))
    at = note(table, at, wb.cancel_each(s, t))
    return note(table, at, wb.switch_to_successor(s, 0))


@cuda.jit(device=True, inline="always")
def arrays(table, s, value, at):
    """Each lane's element: its number, then what it was read as, times 3, and what is added to it."""
    memory = cuda.local.array(ARRAY_WORDS, types.uint64, alignment=ALIGNMENT)
    a, own, v = wb.pointer(memory), types.uint64(cuda.laneid), wb.pointer(value)
    first = types.uint64(PARTS * PART_BYTES)
    opened = wb.array_open(a, s, wb.pointer(table[CACHE]), wb.pointer(table[PAGES]), first, LANES, 8)
    at = note(table, at, opened)
    value[0] = own
    at = note(table, at, wb.array_put_each(a, own, v, 0))
    value[0] = 0
    at = note(table, at, wb.array_get_each(a, own, v, 0))
    value[0] *= types.uint64(3)
    at = note(table, at, wb.array_put(a, own, v, 0))
    cuda.syncwarp()
    at = note(table, at, wb.array_get(a, own, v, 0))
    cuda.syncwarp()
    at = note(table, at, wb.array_atomic_add(a, own, 5, 0))
    cuda.syncwarp()
    at = note(table, at, wb.array_atomic_add_each(a, own, 7, 0))
    at = note(table, at, wb.array_get_each(a, LANES, v, 0))
    at = note(table, at, wb.array_flush(a, 0))
    cuda.syncwarp()
    at = note(table, at, wb.array_flush_warp(a, 0))
    return note(table, at, wb.array_close(a))


@cuda.jit(device=True, inline="always")
def statuses(table, at):
    at = note(table, at, wb.status_ok(0))
    at = note(table, at, wb.status_ok(NO_ROOM))
    at = note(table, at, wb.status_differs(DIFFERS))
    at = note(table, at, wb.status_differs(NO_ROOM))
    at = note(table, at, wb.status_retryable(NO_ROOM))
    at = note(table, at, wb.status_retryable(TIMED_OUT))
    at = note(table, at, wb.status_buffer_in_use(TIMED_OUT))
    return note(table, at, wb.status_buffer_in_use(NO_ROOM))


def calls(address):
    """Every one of them."""
    table = wb.words(address)
    session = cuda.local.array(SESSION_WORDS, types.uint64, alignment=ALIGNMENT)
    token = cuda.local.array(1, types.uint64)
    value = cuda.local.array(1, types.uint64)
    token[0] = 0
    s, t, ns = wb.pointer(session), wb.pointer(token), wb.pointer(table[NAMESPACE])
    at = note(table, 0, wb.attach_warp(s, ns, 0))
    at = synchronous(table, s, at)
    at = background(table, s, t, at)
    at = commands(table, s, t, at)
    at = flushes_and_refusals(table, s, t, at)
    at = arrays(table, s, value, at)
    at = note(table, at, wb.detach(s))
    b = types.uint64(cuda.laneid)
    at = note(table, at, wb.attach(s, ns, 1))
    at = note(table, at, wb.read(s, b, 1, wb.pointer(table[TO]), b * BLOCK_BYTES, 0))
    at = note(table, at, wb.detach(s))
    statuses(table, at)


def expected(sharing):
    """Statuses, a row for each call and a column for each lane."""
    rows = numpy.empty((len(CALLS), LANES), numpy.uint32)
    for row, (_, who, status) in zip(rows, CALLS):
        row[:] = status
        if sharing == host.EXCLUSIVE and who is not None:
            row[0 if who == THREAD else 1:] = INVALID
    return rows


def wrong_calls(library, image, target, sharing):
    """Runs the kernel, and says which calls were answered otherwise than expected, and which data is wrong."""
    kind = "shared" if sharing == host.SHARED else "exclusive"
    with contextlib.closing(host.Queues(library, "soft:size=1m", target, 2, sharing)) as queues:
        program = queues.load(image)
        said, sent, came, on_ssd = run(queues, program)
        library.call("program_close", program)
    faults = []
    for (name, _, _), found, wanted in zip(CALLS, said, expected(sharing)):
        for lane in numpy.flatnonzero(found != wanted)[:1]:
            faults.append(f"{kind}: {name} told lane {lane} {found[lane]:#x}, expected {wanted[lane]:#x}")
    # Parts 0, 3 and 6 are moved by threads.
    moved = [part for part in range(PARTS) if sharing == host.SHARED or part not in (0, 3, 6)]
    faults += [f"{kind}: part {part} came back otherwise" for part in moved if not (sent[part] == came[part]).all()]
    times, more = (3, 5 + 7) if sharing == host.SHARED else (1, 7)
    if not (on_ssd == numpy.arange(LANES, dtype=numpy.uint64) * times + more).all():
        faults.append(f"{kind}: the array on the SSD is {on_ssd}")
    return faults


def run(queues, program):
    """What was said, sent and read, and the array as the SSD has it."""
    cache, pages = host.page_cache(queues, PARTS * PART_BYTES + ARRAY_BYTES, 4)
    shared = queues.alloc(16384)
    source, to = queues.alloc(PARTS * PART_BYTES), queues.alloc((PARTS + 1) * PART_BYTES)
    sent = numpy.random.default_rng(1).integers(0, 256, PARTS * PART_BYTES, numpy.uint8)
    source.put(0, sent.tobytes())
    table = numpy.zeros(SAID + 1, numpy.uint64)
    table[NAMESPACE] = shared.put(0, queues.namespace.raw)
    table[FROM], table[TO] = shared.put(512, source.ref.raw), shared.put(576, to.ref.raw)
    table[CACHE], table[PAGES] = shared.put(1024, cache), shared.put(1152, pages)
    table[SAID] = shared.put(4096, b"\xff" * 4 * LANES * len(CALLS))
    queues.run(program, "calls", shared.put(2048, table.tobytes()), 1)
    said = numpy.frombuffer(shared.bytes, numpy.uint32, LANES * len(CALLS), 4096).reshape(-1, LANES).copy()
    came = numpy.frombuffer(to.bytes, numpy.uint8, PARTS * PART_BYTES).copy()
    return said, sent.reshape(PARTS, -1), came.reshape(PARTS, -1), on_ssd(queues)


def on_ssd(queues):
    """The array, read by the host."""
    block = numpy.zeros(BLOCK_BYTES // 8, numpy.uint64)
    where = ctypes.c_uint32(1), ctypes.c_uint64(PARTS * LANES)
    queues.library.call("ssd_read", queues.ssd, *where, ctypes.c_void_p(block.ctypes.data), ctypes.c_size_t(BLOCK_BYTES))
    return block[:LANES]


def check(layer, library):
    """On both kinds of queues, on the PTX machine."""
    ptx = wb.link(calls, (9, 0), layer, host.ABI_VERSION, ptx=True)
    with tempfile.TemporaryDirectory() as folder:
        image = pathlib.Path(folder, "calls")
        image.write_bytes(ptx)
        kinds = (host.SHARED, host.EXCLUSIVE)
        faults = [fault for kind in kinds for fault in wrong_calls(host.Library(library), image, "ptx", kind)]
    return ptx.decode(), faults
