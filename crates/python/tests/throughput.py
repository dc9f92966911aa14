"""Reads through Python beside those of `warpbell bench`, in turns: `python throughput.py [ROUNDS]`.

128 KiB a read, 32 in flight, a soft SSD in memory. Prints the best of each, as others use the machine, too.
"""

from __future__ import annotations

import sys
import time
from collections import deque

import warpbell

NAME, BYTES, DEPTH, SECONDS = "soft:size=1g", 128 << 10, 32, 0.5


def rust() -> float:
    """Bytes per second of the host's own queue in Rust."""
    words = {"api": "host", "rw": "read", "bs": BYTES, "iodepth": DEPTH, "runtime": f"{SECONDS}s"}
    return float(warpbell.bench(NAME, **words)["bytes_per_s"])


def python() -> float:
    """The same by futures: a new read as soon as the oldest has ended."""
    with warpbell.open(NAME, depth=DEPTH) as ssd, ssd.buffer(DEPTH * BYTES) as buffer:
        slots, places = range(0, DEPTH * BYTES, BYTES), ssd.nbytes // BYTES
        reads = deque(ssd.read_into(buffer, at, at=at, nbytes=BYTES) for at in slots)
        done, begin = 0, time.perf_counter()
        while done % DEPTH or time.perf_counter() - begin < SECONDS:
            reads.popleft().result()
            place = (DEPTH + done) % places * BYTES
            reads.append(ssd.read_into(buffer, place, at=slots[done % DEPTH], nbytes=BYTES))
            done += 1
        seconds = time.perf_counter() - begin
        for read in reads:
            read.result()
        return done * BYTES / seconds


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    pairs = [(rust(), python()) for _ in range(rounds)]
    best_rust, best_python = (max(column) for column in zip(*pairs, strict=True))
    print(f"Rust {best_rust / 1e9:.2f} GB/s, Python {best_python / 1e9:.2f} GB/s: {best_python / best_rust:.0%}")


if __name__ == "__main__":
    main()
