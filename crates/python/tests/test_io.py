"""Reads and writes: futures, splitting, order, failures."""

from __future__ import annotations

import asyncio
import pathlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import warpbell


def pattern(nbytes: int, seed: int = 0) -> bytes:
    return bytes((i * 131 + seed * 29 >> 3) & 255 for i in range(4096)) * (nbytes // 4096)


def test_an_ssd_says_what_it_is(ssd: warpbell.Ssd) -> None:
    assert (ssd.name, ssd.block_size, ssd.blocks, ssd.nbytes) == ("soft:size=64m", 512, 131072, 64 << 20)
    assert ssd.info.model and ssd.info.serial and ssd.info.firmware
    assert ssd.max_transfer_bytes is None or ssd.max_transfer_bytes >= ssd.block_size
    assert repr(ssd) == "<warpbell.Ssd soft:size=64m: 131072 blocks of 512 bytes>"


def test_what_is_written_by_futures_comes_back(ssd: warpbell.Ssd) -> None:
    wrote, read = ssd.buffer(8 << 20), ssd.buffer(8 << 20)
    memoryview(wrote)[:] = pattern(8 << 20)
    future = ssd.write_from(wrote, 4096)
    assert future.result() == 8 << 20 and future.done() and future.exception() is None
    assert ssd.read_into(read, 4096).result(60) == 8 << 20
    assert bytes(memoryview(read)) == bytes(memoryview(wrote))
    assert ssd.read(4096, 8 << 20) == bytes(memoryview(wrote))


@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"depth": 3, "queue_entries": 4}, {"prp_only": True}, {"depth": 1023}])
def test_requests_above_a_commands_size_are_split(options: dict[str, int]) -> None:
    with warpbell.open("soft:size=16m,mdts=2", **options) as ssd:
        assert ssd.max_transfer_bytes == 16 << 10
        wrote, read = ssd.buffer(3 << 20), ssd.buffer(3 << 20)
        memoryview(wrote)[:] = pattern(3 << 20, 5)
        assert ssd.write_from(wrote, 512).result() == 3 << 20
        assert ssd.read_into(read, 512).result() == 3 << 20
        assert bytes(memoryview(read)) == bytes(memoryview(wrote))


def test_parts_of_buffers_go_to_their_places(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(64 << 10)
    ssd.write(0, pattern(16 << 10, 1))
    ssd.read_into(buffer, 1024, at=4100, nbytes=2048).result()
    found = bytes(memoryview(buffer))
    assert found[4100:6148] == pattern(16 << 10, 1)[1024:3072]
    assert not any(found[:4100]) and not any(found[6148:])


def test_bytes_of_all_kinds_are_written(ssd: warpbell.Ssd) -> None:
    for data in (b"a" * 512, bytearray(b"b" * 1024), memoryview(b"c" * 2048)[::1], memoryview(bytes(1024))[::2]):
        ssd.write(1024, data)
        assert ssd.read(1024, memoryview(data).nbytes) == bytes(data)


def test_flush_comes_after_what_was_sent_before(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(1 << 20)
    futures = [ssd.write_from(buffer, at) for at in range(0, 32 << 20, 1 << 20)]
    ssd.flush()
    assert all(future.done() for future in futures)


def test_futures_can_be_awaited(ssd: warpbell.Ssd) -> None:
    buffer = ssd.buffer(1 << 20)

    async def both() -> list[int]:
        return list(await asyncio.gather(*(wait(ssd.read_into(buffer, at)) for at in (0, 4096))))

    async def wait(future: warpbell.Future) -> int:
        return await future

    assert asyncio.run(both()) == [1 << 20, 1 << 20]


def faulty(folder: pathlib.Path, text: str) -> str:
    """The name of an SSD with this fault."""
    plan = folder / "plan.toml"
    plan.write_text(f"[[fault]]\n{text}\n")
    return f"soft:size=64m,mdts=2,faults={plan}"


def test_the_status_of_a_split_request_is_the_first_failures(tmp_path: pathlib.Path) -> None:
    name = faulty(tmp_path, 'kind = "fail"\nstatus = "Unrecovered Read Error"\nopcode = "read"\nlba = [1000, 1001]')
    with warpbell.open(name) as ssd:
        buffer = ssd.buffer(4 << 20)
        future = ssd.read_into(buffer, 0)
        with pytest.raises(warpbell.CommandError, match="^read of 4194304 bytes at 0, namespace 1 of soft:.*Unrecovered Read") as caught:
            future.result()
        assert caught.value.status is not None and isinstance(future.exception(), OSError)
        assert ssd.write_from(buffer, 0).result() == 4 << 20
        assert ssd.read_into(buffer, 1 << 20, nbytes=1 << 20).result() == 1 << 20


def test_a_command_without_an_answer_costs_its_queue_and_no_more(tmp_path: pathlib.Path) -> None:
    name = faulty(tmp_path, 'kind = "drop"\nopcode = "read"\nlba = [1000, 1001]\ncount = 1')
    with warpbell.open(name, timeout=0.3) as ssd:
        lost, good = ssd.buffer(4096), ssd.buffer(4096)
        futures = [ssd.read_into(good, 0), ssd.read_into(lost, 512000), ssd.read_into(good, 4096)]
        with pytest.raises(warpbell.CommandError, match="no completion within 300ms$") as caught:
            futures[1].result(60)
        assert caught.value.status is None
        lost.close()
        assert ssd.read_into(good, 512000).result(60) == 4096
        good.close()


def test_a_wait_ends_by_its_limit_and_the_io_goes_on(tmp_path: pathlib.Path) -> None:
    # Nothing but the end of the delay ends the read: however slow this machine is, it comes after the wait.
    with warpbell.open(faulty(tmp_path, 'kind = "delay"\nby = "1s"\nopcode = "read"')) as ssd:
        future = ssd.read_into(ssd.buffer(4096), 0)
        for limit, said in [(0, "0ns"), (0.01, "10ms")]:
            with pytest.raises(warpbell.WaitTimeoutError, match=f"^future: no end within {said}$"):
                future.result(limit)
        assert not future.done() and future.result(60) == 4096


def test_a_file_is_written_only_if_it_was_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "disk.img"
    file.write_bytes(bytes(1 << 20))
    with warpbell.open(f"soft:file={file}") as ssd:
        with pytest.raises(warpbell.RefusedError, match="allow_write"):
            ssd.write_from(ssd.buffer(512), 0)
        with pytest.raises(PermissionError, match="allow_write"):
            ssd.write(0, bytes(512))
    with warpbell.open(f"soft:file={file}", allow_write=str(file)) as ssd:
        buffer = ssd.buffer(512)
        memoryview(buffer)[:] = b"w" * 512
        ssd.write_from(buffer, 512).result()
        ssd.flush()
    assert file.read_bytes()[510:1026] == b"\0\0" + b"w" * 512 + b"\0\0"


def test_what_a_file_fills_only_in_part_is_not_written(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "odd.img"
    file.write_bytes(bytes(1000))
    with warpbell.open(f"soft:file={file}", allow_write=[str(file)]) as ssd:
        assert ssd.blocks == 2
        with pytest.raises(warpbell.ArgumentError, match="^lba 0 and 1024 bytes: .*odd.img, of which the file has only 488 of 512 bytes; at most 512 "):
            ssd.write_from(ssd.buffer(1024), 0)


def test_closing_waits_for_io_in_flight() -> None:
    ssd = warpbell.open("soft:size=64m")
    buffer = ssd.buffer(32 << 20)
    future = ssd.read_into(buffer, 0)
    ssd.close()
    assert future.done() and future.result() == 32 << 20


def test_what_python_forgets_in_flight_is_freed_by_the_last_command() -> None:
    for _ in range(20):
        ssd = warpbell.open("soft:size=64m")
        ssd.read_into(ssd.buffer(32 << 20), 0)
        del ssd


@contextmanager
def served(socket: pathlib.Path) -> Iterator[str]:
    """A controller of another process serves one client at a time, and mappings hold on to it."""
    server = subprocess.Popen([warpbell._bench._command(), "serve", "--socket", socket, "--size", "16m"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if socket.exists():
                break
            time.sleep(0.1)
        yield f"vfio-user:{socket}"
    finally:
        server.kill()
        server.wait()


def test_a_closed_ssd_can_be_opened_again_while_its_buffers_live(tmp_path: pathlib.Path) -> None:
    with served(tmp_path / "ssd.sock") as name:
        kept = []
        for number in range(3):
            with warpbell.open(name, allow_write=name.removeprefix("vfio-user:")) as ssd:
                buffer = ssd.buffer(8192)
                kept.append(memoryview(buffer))
                kept[-1][:] = bytes([number]) * 8192
                assert ssd.write_from(buffer, 0).result(60) == 8192
                with pytest.raises(warpbell.Error):
                    ssd.register(bytearray(8192))
            assert bytes(kept[-1][:2]) == bytes([number]) * 2
            with pytest.raises(warpbell.ClosedError, match="^ssd vfio-user:"):
                ssd.read_into(buffer, 0)


def test_ssds_of_a_closed_volume_can_be_opened_again_while_its_buffers_live(tmp_path: pathlib.Path) -> None:
    with served(tmp_path / "a.sock") as one, served(tmp_path / "b.sock") as two:
        kept = []
        for _ in range(3):
            with ExitStack() as opened:
                ssds = [opened.enter_context(warpbell.open(name)) for name in (one, two)]
                queues = [opened.enter_context(ssd.attach()) for ssd in ssds]
                volume = opened.enter_context(warpbell.Volume(queues))
                kept += [volume.buffer(8192), queues[1].buffer(512)]
                assert volume.read_into(kept[-2], 0).result(60) == 8192  # type: ignore[arg-type]
        assert not any(buffer.closed for buffer in kept)
