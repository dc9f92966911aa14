"""The protocols of the laboratory over a grid: warps x active lanes x depth, ours beside each other one, worst cell first.

A lane has one command in flight, so a cell is a number of warps and of commands: depth commands on `warps` warps are depth / warps
lanes of each, and no more than 32. Cells of fewer lanes are cells of a smaller depth, and print as those."""

import os
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import protocol_run
from protocol_run import BLOCK, LANES

OURS = "turns"
OTHERS = ("marks", "marks-own", "lockstep", "service")
WARPS = (1, 2, 4, 8, 16, 64)
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PROFILES = ("optane", "tlc")
# Each command slot has at least so many I/Os: with few, start and end of the run would be what is measured.
PER_COMMAND = 50
# Of each ten thousand latencies that a profile draws each ten-thousandth of its distribution has one: in so many I/Os p99.99 is
# the same for all protocols that add nothing to it.
IOS = 100_000
CLIENTS = ("free", "h200,rings=hbm", "h200,rings=host")
# What a cell is judged by: key, whether more is better, and how far ours may be from the best other protocol.
JUDGED = (("IOPS", True, 0.97), ("p50", False, 1.05), ("p99.99", False, 1.10))
# With fewer I/Os p99.99 is one or two of them, and is not judged.
TAIL_IOS = 100_000
# Read-modify-writes per I/O: where one lane of each warp is active, where the client is free, and of full warps with a charged one.
RMW_ALONE, RMW_FREE, RMW_CHARGED = 3.0, 2.5, 0.5
# Latencies are compared with protocols as fast as ours, to this: one that keeps fewer commands at the SSD has shorter queues there.
AS_FAST = 0.97
# Where none is as fast, with the fastest, or with what the SSD itself takes under as many commands, whichever is longer: the
# fastest protocol of a client whose work takes no time.
FREE_CLIENT = "free client"
# In this part of the cells no other protocol shall have more IOPS than ours, of a charged client.
FIRST = 0.80
# Few I/Os lie beyond p99.99: where a cell misses that bound alone, it runs again with so many times as many, and that counts.
MORE_IOS = 16
# Of more warps at equal depth.
MORE_WARPS = 0.97
SHOWN = 8


def value(run, key):
    return run["iops"] if key == "IOPS" else run["lat_ns"][key.replace(".", "_")]


def runs(warpbell, cell, client, ios):
    """{protocol: run} of one cell."""
    profile, warps, depth = cell
    device = f"soft:size=64m,profile={profile},time=virtual,client={client}"
    ios = max(ios, PER_COMMAND * depth)
    return protocol_run.runs(warpbell, device, warps, depth, (OURS, *OTHERS), ["--io-limit", str(ios * BLOCK)])


def fastest_other(found):
    return max(OTHERS, key=lambda name: found[name]["iops"])


def as_fast(found):
    return [name for name in OTHERS if found[name]["iops"] >= AS_FAST * found[OURS]["iops"]]


def measured(warpbell, cell, client, ios):
    """{protocol: run} of one cell; with that of a free client where no other protocol is as fast as ours."""
    found = runs(warpbell, cell, client, ios)
    if client != CLIENTS[0] and not as_fast(found):
        free = runs(warpbell, cell, CLIENTS[0], ios)
        found[FREE_CLIENT] = free[fastest_other(free)]
    return found


def ratio(found, key, more):
    """Ours to the best of the others, and which that is."""
    if more:
        names, best_of = OTHERS, max
    elif as_fast(found):
        names, best_of = as_fast(found), min
    else:
        names, best_of = [name for name in (fastest_other(found), FREE_CLIENT) if name in found], max
    best = best_of(names, key=lambda name: value(found[name], key))
    return value(found[OURS], key) / value(found[best], key), best


def judged(ios):
    """The figures that so many I/Os are enough for."""
    return [figure for figure in JUDGED if figure[0] != "p99.99" or ios >= TAIL_IOS]


def only_tail_missed(found, ios):
    """Whether a cell misses the bound of the tail and no other."""
    missed = [key for key, more, bound in judged(ios) if (ratio(found, key, more)[0] - bound) * (1 if more else -1) < 0]
    return missed == ["p99.99"]


def judge(cells, ios):
    """Prints each figure's worst cells; returns how many miss its bound."""
    missed = 0
    if ios < TAIL_IOS:
        print(f"\np99.99: not judged below {TAIL_IOS} I/Os")
    for key, more, bound in judged(ios):
        ranked = sorted(((*ratio(found, key, more), cell) for cell, found in cells.items()), key=lambda row: row[0] if more else -row[0])
        beyond = [row for row in ranked if (row[0] < bound if more else row[0] > bound)]
        first = sum(row[0] >= 1 if more else row[0] <= 1 for row in ranked)
        missed += len(beyond)
        print(f"\n{key}: ours to the best other; {'at least' if more else 'at most'} {bound} wanted, missed in {len(beyond)} of "
              f"{len(ranked)} cells; first or level in {first}")
        print(f"{'profile':<8} {'warps':>5} {'lanes':>5} {'depth':>5} {'ours':>10} {'best':>10} {'ratio':>6}")
        for of_best, best, cell in ranked[:SHOWN]:
            profile, warps, depth = cell
            ours, other = (value(cells[cell][name], key) for name in (OURS, best))
            print(f"{profile:<8} {warps:>5} {-(-depth // warps):>5} {depth:>5} {ours:>10.0f} {other:>10.0f} {of_best:>6.3f}  {best}")
    return missed


def rarely_first(cells):
    """Whether ours is first in fewer cells than a charged client's bound."""
    first = sum(ratio(found, "IOPS", True)[0] >= 1 for found in cells.values())
    print(f"\nfirst in IOPS: {first} of {len(cells)} cells, at least {FIRST:.0%} wanted")
    return first < FIRST * len(cells)


def more_warps(cells):
    """Cells where ours is slower than with fewer warps at the same depth."""
    by_depth = defaultdict(list)
    for (profile, warps, depth), found in sorted(cells.items()):
        by_depth[profile, depth].append((value(found[OURS], "IOPS"), warps))
    lost = [(iops / max(of_fewer)[0], profile, depth, warps) for (profile, depth), row in by_depth.items()
            for at, (iops, warps) in enumerate(row) if at and (of_fewer := row[:at]) and iops < MORE_WARPS * max(of_fewer)[0]]
    print(f"\nmore warps at equal depth: {len(lost)} cells below {MORE_WARPS} of fewer warps")
    for kept, profile, depth, warps in sorted(lost)[:SHOWN]:
        print(f"{profile:<8} depth {depth}, {warps} warps: {kept:.3f}")
    return len(lost)


def too_many_rmws(cells, client):
    """Cells in which ours takes more read-modify-writes per I/O than it may."""
    missed = 0
    for (profile, warps, depth), found in sorted(cells.items()):
        free, rmws = client == CLIENTS[0], found[OURS]["rmw_per_io"]
        most = RMW_ALONE if depth <= warps else RMW_FREE if free else RMW_CHARGED if depth == LANES * warps else None
        if most is not None and rmws > most:
            missed += 1
            print(f"{profile:<8} depth {depth}, {warps} warps: {rmws:.2f} RMW per I/O, at most {most} wanted")
    return missed


def work(cells):
    """What an I/O takes of each protocol: the mean and the most over all cells."""
    print(f"\n{'work per I/O':<12} {'RMW':>13} {'fences':>13} {'SQ doorbells':>13} {'CQ doorbells':>13} {'polls':>13}")
    for name in (OURS, *OTHERS):
        line = []
        for key in ("rmw", "fences", "sq_doorbells", "cq_doorbells", "polls"):
            found = [cell[name][f"{key}_per_io"] for cell in cells.values()]
            line.append(f"{sum(found) / len(found):>6.2f} {max(found):>6.1f}")
        print(f"{name:<12} {' '.join(line)}")


def grid(warpbell, profiles, client, ios):
    """Bounds that were missed."""
    cells = [(profile, warps, depth) for profile in profiles for warps in WARPS for depth in DEPTHS if depth <= LANES * warps]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        try:
            found = dict(zip(cells, workers.map(lambda cell: measured(warpbell, cell, client, ios), cells)))
            again = [cell for cell in cells if only_tail_missed(found[cell], ios)]
            found |= zip(again, workers.map(lambda cell: measured(warpbell, cell, client, ios * MORE_IOS), again))
        except RuntimeError as error:
            workers.shutdown(cancel_futures=True)
            sys.exit(f"error: {error}")
    print(f"{len(cells)} cells of {ios} I/Os, and at least {PER_COMMAND} for each command in flight; {len(again)} of them again with "
          f"{MORE_IOS} times as many, client={client}; a lane has one command in flight")
    missed = judge(found, ios) + more_warps(found) + (client != CLIENTS[0] and rarely_first(found))
    work(found)
    missed += too_many_rmws(found, client)
    return missed
