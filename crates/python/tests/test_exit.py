"""What `with` says, and the first look of a wait."""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import signal
import threading
import time
from collections.abc import Iterator

import pytest

import warpbell


def test_with_shows_the_error_of_its_block(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    queues = ssd.attach()
    word = queues.buffer(4096)
    launch = program.launch(queues, "wait_for_word", ctypes.c_uint64(word.address))
    with pytest.raises(KeyError, match="mine"), queues:
        raise KeyError("mine")
    with pytest.raises(warpbell.BusyError), queues:
        pass
    view = memoryview(word)
    with pytest.raises(KeyError, match="mine"), word:
        raise KeyError("mine")
    view[0] = 1
    launch.wait()


def test_a_result_that_is_there_needs_no_time(ssd: warpbell.Ssd) -> None:
    with ssd.buffer(4096) as buffer:
        ended = 0
        for _ in range(200):
            future = ssd.read_into(buffer, 0)
            while True:
                try:
                    ended += future.result(timeout=0)
                    break
                except warpbell.WaitTimeoutError:
                    pass
        assert ended == 200 * 4096
    with warpbell.open("soft:size=1m", depth=7) as other:
        assert other.depth == 7


def test_no_queues_are_open_on_a_closed_ssd() -> None:
    for _ in range(30):
        ssd = warpbell.open("soft:size=1m")
        attached: list[warpbell.Queues] = []

        def attach(ssd: warpbell.Ssd = ssd, attached: list[warpbell.Queues] = attached) -> None:
            with contextlib.suppress(warpbell.Error):
                while True:
                    attached.append(ssd.attach())

        threads = [threading.Thread(target=attach) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        ssd.close()
        for thread in threads:
            thread.join()
        assert all(queues.closed for queues in attached)


def test_a_kernel_that_never_ends_is_left_to_itself(ssd: warpbell.Ssd, program: warpbell.Program) -> None:
    queues = ssd.attach()
    word = queues.buffer(4096)
    launch = [program.launch(queues, "wait_for_word", ctypes.c_uint64(word.address))]
    with pytest.warns(RuntimeWarning, match="^kernel wait_for_word: was forgotten, and has not stopped within 11s: what it uses stays$"):
        launch.clear()
    with pytest.raises(warpbell.BusyError, match="1 kernels still run"):
        queues.close()
    memoryview(word)[0] = 1
    for _ in range(1000):
        with contextlib.suppress(warpbell.BusyError):
            queues.close()
            break
        time.sleep(0.01)
    assert queues.closed


@contextlib.contextmanager
def raises_after(seconds: float) -> Iterator[None]:
    """A signal, as Ctrl-C sends one, whose handler raises."""

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("opcode", ["read", "write"])
def test_a_signal_ends_a_long_read_or_write(tmp_path: pathlib.Path, opcode: str) -> None:
    """A look for signals every 4 MiB: what was written is whole up to there, and nothing behind it is."""
    plan, whole = tmp_path / "slow.toml", 64 << 20
    plan.write_text(f'[[fault]]\nkind = "delay"\nby = "5ms"\nopcode = "{opcode}"\n')
    data = b"\xff" * whole
    with warpbell.open(f"soft:size=64m,faults={plan}") as ssd:
        with pytest.raises(KeyboardInterrupt), raises_after(0.2):
            ssd.read(0, whole) if opcode == "read" else ssd.write(0, data)
        if opcode == "write":
            written = ssd.read(0, whole).rstrip(b"\0")
            assert 0 < len(written) < whole and len(written) % (4 << 20) == 0 and written == b"\xff" * len(written)
