"""Children of fork have copies of all objects: the parent goes on, whatever they do with theirs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

import warpbell

EXIT = """
import os, sys, warpbell
ssd = warpbell.open("soft:size=4m")
queues, buffer = ssd.attach(), ssd.buffer(4096)
view = memoryview(buffer)
future = ssd.write_from(buffer, 0)
future.result()
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
ssd.read_into(buffer, 0).result(10)
del view
queues.close()
buffer.close()
ssd.close()
"""


def test_a_child_ends_by_itself() -> None:
    done = subprocess.run([sys.executable, "-c", EXIT], timeout=60, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def in_child(work: Callable[[], None]) -> int:
    """The exit code of a child that does this."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(20)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_forgets_without_the_parent(ssd: warpbell.Ssd) -> None:
    things = [ssd, ssd.buffer(4096), ssd.attach(), ssd.register(bytearray(4096))]
    things += [memoryview(things[1]), ssd.read_into(things[1], 0), things[2].namespace, things[2].lease((0, 8))]
    assert in_child(things.clear) == 0
    assert things[5].result(10) == 4096
    ssd.read_into(things[3], 0).result(10)
    things[7].close()
    things[2].close()


def test_calls_in_a_child_name_the_process(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    queues, buffer = ssd.attach(), ssd.buffer(4096)
    lease, volume = queues.lease((0, 8)), warpbell.Volume([queues])
    part, future = volume.buffer(512), ssd.read_into(buffer, 0)
    calls = [
        ssd.close, ssd.flush, ssd.attach, lambda: ssd.read(0, 512), lambda: ssd.write(0, bytes(512)), lambda: ssd.buffer(512),
        lambda: ssd.register(bytearray(512)), lambda: ssd.read_into(buffer, 0), lambda: memoryview(buffer), buffer.close,
        queues.close, queues.stop, queues.counters, lambda: queues.buffer(512), lease.close, volume.close, part.read,
        future.result, future.done, lambda: program.launch(queues, "layout", bytes(80)),
    ]
    line = rf"^[a-z].*: belongs to process {os.getpid()}, and this is process \d+: open the SSD here, too$"

    def work() -> None:
        for call in calls:
            with pytest.raises(warpbell.Error) as caught:
                call()
            assert re.search(line, str(caught.value)), str(caught.value)
        with warpbell.open("soft:size=1m") as own, own.buffer(512) as mine:
            assert own.read_into(mine, 0).result(10) == 512

    assert in_child(work) == 0
    assert future.result(10) == 4096 and ssd.read(0, 512) == bytes(512)
    for thing in (lease, volume, queues, buffer):
        thing.close()
