"""Breadth-first search over a graph on an SSD, by a kernel in Python.

The graph is a file in compressed sparse form: `nodes + 1` offsets of 64 bits, then a column of 32 bits for each edge. It
lies on the SSD from byte 0 on. Kernels read it through a page cache; depths are in memory.

    python bfs.py --layer /opt/warpbell/lib/device/warpbell_device.ltoir --library /opt/warpbell/lib/libwarpbell.so

runs it without a GPU, as PTX; `--target cuda:0 --capability 9.0` on one.
"""

import argparse
import contextlib
import pathlib
import sys
import tempfile

import numpy
from numba import cuda, types

import warpbell_host as host
import warpbell_numba as wb
from warpbell_numba import ALIGNMENT, ARRAY_WORDS, SESSION_WORDS

UNSEEN = 0xFFFFFFFF

# The kernel's table: addresses and numbers, of 64 bits.
NAMESPACE, CACHE, PAGES, DEPTHS, FOUND, NODES, EDGES, COLUMNS, LEVEL = range(9)
# What `FOUND` names: 32-bit words.
NEW, STATUS = range(2)


@cuda.jit(device=True, inline="always")
def good(found, status):
    """Whether a call succeeded in every lane; the status of one that did not is kept for the host."""
    if status != 0:
        found[STATUS] = status
    return cuda.all_sync(wb.ALL_LANES, status == 0)


@cuda.jit(device=True, inline="always")
def opened(table, session, array, first_byte, count, element_bytes):
    """Status of opening an array of the graph, through the cache."""
    cache, pages = wb.pointer(table[CACHE]), wb.pointer(table[PAGES])
    return wb.array_open(wb.pointer(array), wb.pointer(session), cache, pages, first_byte, count, element_bytes)


@cuda.jit(device=True, inline="always")
def expand(table, offsets, columns, node):
    """Looks at the edges of this lane's node; of none where it has no node. All lanes call. False: a call failed."""
    found, depths = wb.halves(table[FOUND]), wb.halves(table[DEPTHS])
    none = types.uint64(wb.NO_INDEX)
    begin = cuda.local.array(1, types.uint64)
    end = cuda.local.array(1, types.uint64)
    column = cuda.local.array(1, types.uint32)
    begin[0] = end[0] = 0
    if not good(found, wb.array_get_each(wb.pointer(offsets), node, wb.pointer(begin), 0)):
        return False
    behind = none if node == none else node + types.uint64(1)
    if not good(found, wb.array_get_each(wb.pointer(offsets), behind, wb.pointer(end), 0)):
        return False
    edge = begin[0]
    while cuda.any_sync(wb.ALL_LANES, edge < end[0]):
        mine = edge if edge < end[0] else none
        if not good(found, wb.array_get_each(wb.pointer(columns), mine, wb.pointer(column), 0)):
            return False
        if mine != none and column[0] < table[NODES] and depths[column[0]] == UNSEEN:
            # Whoever else sees it in this level stores the same.
            depths[column[0]] = types.uint32(table[LEVEL]) + types.uint32(1)
            found[NEW] = 1
        edge += types.uint64(1)
    return True


@cuda.jit(device=True, inline="always")
def search(table, session):
    """All nodes of this level, 32 of them at a time for each warp."""
    found, depths = wb.halves(table[FOUND]), wb.halves(table[DEPTHS])
    offsets = cuda.local.array(ARRAY_WORDS, types.uint64, alignment=ALIGNMENT)
    columns = cuda.local.array(ARRAY_WORDS, types.uint64, alignment=ALIGNMENT)
    nodes = table[NODES]
    if not good(found, opened(table, session, offsets, types.uint64(0), nodes + types.uint64(1), 8)):
        return
    if not good(found, opened(table, session, columns, table[COLUMNS], table[EDGES], 4)):
        return
    first = types.uint64(cuda.blockIdx.x) * types.uint64(32)
    while first < nodes:
        node = first + types.uint64(cuda.laneid)
        here = node < nodes and depths[node] == table[LEVEL]
        if not expand(table, offsets, columns, node if here else types.uint64(wb.NO_INDEX)):
            break
        first += types.uint64(cuda.gridDim.x) * types.uint64(32)
    wb.array_close(wb.pointer(columns))
    wb.array_close(wb.pointer(offsets))


def bfs(address):
    """One level: neighbours of its nodes that nobody has seen get the next one. A block is one warp, whose lanes make the
    calls together; those without a node or an edge pass no index."""
    table = wb.words(address)
    session = cuda.local.array(SESSION_WORDS, types.uint64, alignment=ALIGNMENT)
    warp = types.uint32(cuda.blockIdx.x)
    if good(wb.halves(table[FOUND]), wb.attach_warp(wb.pointer(session), wb.pointer(table[NAMESPACE]), warp)):
        search(table, session)
    # Of a lost queue, too; where nothing was attached it is refused.
    wb.detach(wb.pointer(session))


def graph(nodes, degree, seed):
    """Offsets and columns of a random graph, some of whose nodes nothing reaches."""
    random = numpy.random.default_rng(seed)
    degrees = random.integers(0, 2 * degree, nodes)
    offsets = numpy.concatenate([[0], numpy.cumsum(degrees)]).astype(numpy.uint64)
    return offsets, random.integers(0, nodes, int(offsets[-1])).astype(numpy.uint32)


def reference(offsets, columns, source):
    """The same search by NumPy."""
    depths = numpy.full(len(offsets) - 1, UNSEEN, numpy.uint32)
    depths[source], frontier, level = 0, numpy.array([source]), 0
    while len(frontier):
        level += 1
        rows = [columns[offsets[node] : offsets[node + 1]] for node in frontier]
        reached = numpy.unique(numpy.concatenate(rows))
        frontier = reached[depths[reached] == UNSEEN]
        depths[frontier] = level
    return depths


def search_on(queues, program, offsets, columns, source, warps, lines):
    """Depths, by kernels: one launch a level."""
    nodes, file_bytes = len(offsets) - 1, offsets.nbytes + columns.nbytes
    cache, pages = host.page_cache(queues, file_bytes, lines)
    shared = queues.alloc(4096)
    depths = queues.alloc(4 * nodes)
    start = numpy.full(nodes, UNSEEN, numpy.uint32)
    start[source] = 0
    depths.put(0, start.tobytes())
    table = numpy.zeros(LEVEL + 1, numpy.uint64)
    table[NAMESPACE] = shared.put(0, queues.namespace.raw)
    table[CACHE], table[PAGES] = shared.put(512, cache), shared.put(1024, pages)
    table[DEPTHS], table[FOUND] = depths.address, shared.put(1536, bytes(8))
    table[NODES], table[EDGES], table[COLUMNS] = nodes, len(columns), offsets.nbytes
    for level in range(nodes):
        shared.put(1536, bytes(8))
        table[LEVEL] = level
        queues.run(program, "bfs", shared.put(2048, table.tobytes()), warps)
        new, status = numpy.frombuffer(shared.bytes, numpy.uint32, 2, 1536)
        if status != 0:
            raise RuntimeError(f"level {level}: status {status:#x}")
        if not new:
            break
    return numpy.frombuffer(depths.bytes, numpy.uint32, nodes).copy()


def count(text):
    """A number of at least 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


def capability(text):
    """A compute capability, as CUDA writes them."""
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text} is no compute capability, such as 9.0")
    return tuple(int(part) for part in parts)


def main():
    options = argparse.ArgumentParser(description="Searches a random graph by a kernel in Python, and by NumPy.")
    options.add_argument("--library", default="libwarpbell.so.0", help="libwarpbell")
    options.add_argument("--layer", required=True, help="lib/device/warpbell_device.ltoir of an installation")
    options.add_argument("--target", default="ptx", help="ptx, or cuda:N")
    options.add_argument("--capability", type=capability, default=(9, 0), help="of the GPU; 9.0 where it is not given")
    options.add_argument("--nodes", type=count, default=2000)
    options.add_argument("--degree", type=count, default=4, help="edges of a node, on average nearly so many")
    options.add_argument("--warps", type=count, default=4)
    options.add_argument("--lines", type=count, help="of the page cache; 4 for each warp")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    lines = chosen.lines or 4 * chosen.warps
    offsets, columns = graph(chosen.nodes, chosen.degree, chosen.seed)
    by_numpy = reference(offsets, columns, 0)
    with tempfile.TemporaryDirectory() as folder:
        file, image = pathlib.Path(folder, "graph.csr"), pathlib.Path(folder, "bfs")
        file.write_bytes(offsets.tobytes() + columns.tobytes() + bytes(4096))
        ptx = chosen.target == "ptx"
        image.write_bytes(wb.link(bfs, chosen.capability, chosen.layer, host.ABI_VERSION, ptx))
        library = host.Library(chosen.library)
        with contextlib.closing(host.Queues(library, f"soft:file={file}", chosen.target, chosen.warps)) as queues:
            program = queues.load(image)
            depths = search_on(queues, program, offsets, columns, 0, chosen.warps, lines)
            library.call("program_close", program)
    wrong = int((depths != by_numpy).sum())
    reached = int((by_numpy != UNSEEN).sum())
    levels = int(by_numpy[by_numpy != UNSEEN].max())
    pages = -(-(offsets.nbytes + columns.nbytes) // 4096)
    print(f"{chosen.nodes} nodes, {len(columns)} edges: {reached} reached, {levels} levels, "
          f"by {pages} pages in {lines} lines; {wrong} depths are not NumPy's")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
