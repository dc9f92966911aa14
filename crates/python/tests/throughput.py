"""Reads through Python beside those of `warpbell bench`, in turns: `python throughput.py [--check] [ROUNDS]`.

128 KiB a read, 32 in flight, a soft SSD in memory. Prints the best of each, as others use the machine, too. With `--check`
it ends with 1 where Python's best is below 90 % of Rust's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Sequence

import warpbell

NAME, BYTES, DEPTH, SECONDS = "soft:size=1g", 128 << 10, 32, 0.5
LEAST = 0.9


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


def rounds_of(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 1")
    return int(text)


def judge(pairs: Sequence[tuple[float, float]], check: bool) -> int:
    """Prints the best of Rust and of Python, and gives the exit code."""
    best_rust, best_python = (max(column) for column in zip(*pairs, strict=True))
    print(f"Rust {best_rust / 1e9:.2f} GB/s, Python {best_python / 1e9:.2f} GB/s: {best_python / best_rust:.0%}")
    if not check or best_python >= LEAST * best_rust:
        return 0
    print(f"Python has {best_python / best_rust:.1%} of Rust: must be at least {LEAST:.0%}", file=sys.stderr)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads through Python and by warpbell bench, in turns.")
    parser.add_argument("rounds", nargs="?", type=rounds_of, default=10, metavar="ROUNDS")
    parser.add_argument("--check", action="store_true", help="end with 1 where Python's best is below 90 %% of Rust's")
    options = parser.parse_args()
    return judge([(rust(), python()) for _ in range(options.rounds)], options.check)


if __name__ == "__main__":
    sys.exit(main())
