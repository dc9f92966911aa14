"""Controllers that do not delete a queue: the error is named, memory stays as long as it may be used, and no longer."""

from __future__ import annotations

import gc
import pathlib
import weakref

import pytest

import warpbell

numpy = pytest.importorskip("numpy")

HALVES = ["delete_i/o_submission_queue", "delete_i/o_completion_queue"]
REFUSED = '[[fault]]\nkind = "fail"\nstatus = "Internal Error"\nadmin = "{half}"\n'
SILENT = '[[fault]]\nkind = "drop"\nopcode = "read"\nlba = 8\n'


def device(folder: pathlib.Path, faults: str) -> str:
    plan = folder / "plan.toml"
    plan.write_text(faults)
    return f"soft:size=4m,faults={plan}"


@pytest.mark.parametrize("half", HALVES)
def test_the_queue_that_was_not_deleted_is_named(tmp_path: pathlib.Path, half: str) -> None:
    ssd = warpbell.open(device(tmp_path, REFUSED.format(half=half)))
    queues = ssd.attach()
    word = "submission" if "submission" in half else "completion"
    said = f"^queues: .*cannot delete the {word} queue of queue 1.*Internal Error.*stay mapped until the SSD is closed$"
    with pytest.raises(warpbell.UndeletedError, match=said):
        queues.close()
    assert queues.closed
    queues.close()
    # The SSD's own queue.
    ssd.read_into(ssd.buffer(4096), 0).result(60)
    with pytest.raises(warpbell.DeviceError, match=f"cannot delete the {word} queue of queue 2"):
        ssd.close()
    assert ssd.closed
    ssd.close()


@pytest.mark.parametrize("half", HALVES)
def test_memory_of_a_lost_queue_stays_until_the_ssd_is_closed(tmp_path: pathlib.Path, half: str) -> None:
    class Array(numpy.ndarray):  # type: ignore[misc,name-defined]
        """With weak references."""

    ssd = warpbell.open(device(tmp_path, REFUSED.format(half=half) + SILENT), timeout=0.2)
    array = numpy.zeros(4096, numpy.uint8).view(Array)
    gone = weakref.ref(array)
    good, lost = ssd.buffer(4096), ssd.register(array)
    with pytest.raises(warpbell.CommandError, match="no completion within 200ms"):
        ssd.read_into(lost, 4096).result(60)
    # Over another queue.
    assert ssd.read_into(good, 0).result(60) == 4096
    good.close()
    said = "^buffer of 4096 bytes: soft:.* did not delete the queue of 1 requests over it, .* stays mapped until the SSD is closed$"
    with pytest.raises(warpbell.UndeletedError, match=said):
        lost.close()
    assert lost.closed
    lost.close()
    del array
    gc.collect()
    assert gone() is not None, "the controller may still write to it"
    with pytest.raises(warpbell.DeviceError, match="cannot delete"):
        ssd.close()
    del ssd, lost, good
    gc.collect()
    assert gone() is None


def test_a_buffer_that_outlives_its_ssd_is_closed_without_a_word(tmp_path: pathlib.Path) -> None:
    ssd = warpbell.open(device(tmp_path, REFUSED.format(half=HALVES[0]) + SILENT), timeout=0.2)
    lost = ssd.buffer(4096)
    with pytest.raises(warpbell.CommandError, match="no completion"):
        ssd.read_into(lost, 4096).result(60)
    ssd.close()
    lost.close()
