"""Eight threads do what they like: no crash, nothing left behind, and each sees its own data."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading

import numpy
import pytest

import warpbell

THREADS = 8
SLICE = 1 << 20


class Caller:
    """One thread: random calls on a shared SSD, in its own slice of it, and on buffers that come and go."""

    def __init__(self, ssd: warpbell.Ssd, number: int, shared: warpbell.Buffer) -> None:
        self.ssd, self.number, self.shared = ssd, number, shared
        self.random = random.Random(number)
        self.buffers: list[warpbell.Buffer] = []
        self.views: list[object] = []
        self.futures: list[warpbell.Future] = []
        self.stamp = 0

    def run(self, calls: int) -> None:
        choices = (self.make, self.register, self.write_and_read, self.read, self.view, self.forget, self.wait, self.close, self.misuse, self.share)
        for _ in range(calls):
            self.random.choice(choices)()
        self.futures, self.views = [], []
        for buffer in self.buffers:
            self.settle(buffer)

    def any(self) -> warpbell.Buffer:
        if not self.buffers:
            self.make()
        return self.random.choice(self.buffers)

    def place(self, nbytes: int) -> int:
        block = 512
        return self.number * SLICE + self.random.randrange((SLICE - nbytes) // block) * block

    def make(self) -> None:
        self.buffers.append(self.ssd.buffer(self.random.choice((512, 4096, 65536))))

    def register(self) -> None:
        self.buffers.append(self.ssd.register(numpy.zeros(self.random.choice((1024, 8192)), numpy.uint8)))

    def write_and_read(self) -> None:
        buffer = self.ssd.buffer(4096)
        offset = self.place(4096)
        self.stamp += 1
        data = (self.number << 32 | self.stamp).to_bytes(8, "little") * 512
        memoryview(buffer)[:] = data
        self.ssd.write_from(buffer, offset).result()
        memoryview(buffer)[:] = bytes(4096)
        self.ssd.read_into(buffer, offset).result()
        assert bytes(memoryview(buffer)) == data

    def read(self) -> None:
        buffer = self.any()
        if not buffer.closed:
            self.futures.append(self.ssd.read_into(buffer, self.place(buffer.nbytes)))

    def view(self) -> None:
        buffer = self.any()
        if not buffer.closed:
            self.views.append(self.random.choice((memoryview, numpy.from_dlpack))(buffer))

    def forget(self) -> None:
        self.random.choice((self.views, self.futures, self.buffers)).clear()

    def wait(self) -> None:
        if self.futures:
            assert self.futures.pop().result(60) > 0

    def close(self) -> None:
        try:
            self.any().close()
        except warpbell.BusyError:
            pass

    def misuse(self) -> None:
        with pytest.raises(warpbell.Error):
            self.ssd.read_into(self.shared, self.random.choice((1, 1 << 60, 7 << 40)))

    def share(self) -> None:
        self.futures.append(self.ssd.read_into(self.shared, self.place(512), nbytes=512))

    def settle(self, buffer: warpbell.Buffer) -> None:
        while not buffer.closed:
            try:
                buffer.close()
            except warpbell.BusyError:
                gc.collect()


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def burst(calls: int) -> None:
    failed: list[BaseException] = []

    def work(caller: Caller) -> None:
        try:
            caller.run(calls // THREADS)
        except BaseException as error:
            failed.append(error)

    with warpbell.open("soft:size=64m") as ssd, ssd.buffer(512) as shared:
        callers = [Caller(ssd, number, shared) for number in range(THREADS)]
        threads = [threading.Thread(target=work, args=(caller,)) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for caller in callers:
            assert all(buffer.closed for buffer in caller.buffers)
        del callers
        ssd.flush()
        gc.collect()
        # Reads that nobody waited for may have ended just now.
        while not shared.closed:
            try:
                shared.close()
            except warpbell.BusyError:
                ssd.flush()
    assert not failed, failed


def test_random_calls_of_eight_threads(request: pytest.FixtureRequest) -> None:
    calls = request.config.getoption("--calls")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        burst(calls // 5)
        gc.collect()
        before, threads = resident(), len(os.listdir("/proc/self/task"))
        burst(calls - calls // 5)
        gc.collect()
    finally:
        sys.setswitchinterval(interval)
    assert len(os.listdir("/proc/self/task")) == threads, "threads are left"
    # A store of 64 MiB that stayed would be seen, and so would 1 KiB for each call of 10^5.
    assert resident() - before < 48 << 20, "memory is left"


def test_closing_while_others_read() -> None:
    for _ in range(20):
        ssd = warpbell.open("soft:size=64m")
        buffers = [ssd.buffer(4096) for _ in range(THREADS)]
        ended: list[type[BaseException]] = []

        def work(buffer: warpbell.Buffer, ssd: warpbell.Ssd = ssd, ended: list[type[BaseException]] = ended) -> None:
            try:
                while True:
                    ssd.read_into(buffer, 0).result(60)
            except BaseException as error:
                ended.append(type(error))

        threads = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
        for thread in threads:
            thread.start()
        ssd.close()
        for thread in threads:
            thread.join()
        assert ended == [warpbell.ClosedError] * THREADS


def test_closing_a_volume_while_others_use_it() -> None:
    for _ in range(10):
        with warpbell.open("soft:size=4m") as one, warpbell.open("soft:size=4m") as two, one.attach() as first, two.attach() as second:
            volume = warpbell.Volume([first, second])
            ended: list[type[BaseException]] = []

            def work(volume: warpbell.Volume = volume, ended: list[type[BaseException]] = ended) -> None:
                try:
                    while True:
                        buffer = volume.buffer(4096)
                        volume.read_into(buffer, 0).result(60)
                        with buffer.view() as other:
                            assert other.address == buffer.address
                        buffer.close()
                        assert buffer.closed
                except BaseException as error:
                    ended.append(type(error))

            threads = [threading.Thread(target=work) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            volume.close()
            for thread in threads:
                thread.join()
            assert ended == [warpbell.ClosedError] * THREADS
