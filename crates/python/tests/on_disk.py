"""What tests of records have in common: records on a disk, faults, children of fork."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy

import warpbell
from warpbell import records

FIXED = records.Fixed(record_bytes=512, count=8)
ROWS = numpy.random.default_rng(7).integers(0, 1 << 30, (1009, 33), dtype=numpy.int32)


def index_of(disk: str) -> str:
    return disk.removeprefix("soft:file=").replace(".img", ".index")


def stream(disk: str, **options: Any) -> records.IterableDataset:
    return records.IterableDataset(disk, index_of(disk), **options)


def ids_of(dataset: records.IterableDataset) -> list[int]:
    """One epoch, of which each record must be what was written."""
    ids: list[int] = []
    for batch in dataset:
        assert (batch.data == ROWS[batch.ids]).all()
        ids += batch.ids
    return ids


def faulty(folder: pathlib.Path, text: str) -> str:
    plan = folder / "plan.toml"
    plan.write_text(f"[[fault]]\n{text}\n")
    return f"soft:size=1m,faults={plan}"


def in_child(work: Callable[[], bool]) -> bool:
    """What the work gives in a child of fork, whose end is waited for, but not forever."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def refused_in_child(work: Callable[[], object], line: str) -> bool:
    """Whether a child of fork is refused the work, with this line."""

    def refused() -> bool:
        try:
            work()
        except warpbell.ArgumentError as error:
            return re.search(line, str(error)) is not None
        return False

    return in_child(refused)
