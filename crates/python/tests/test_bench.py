"""`warpbell.bench`: the command's words in, records out."""

from __future__ import annotations

import json
import math
import os
import pathlib
import sys

import pytest

import throughput
import warpbell

SHORT = {"rw": "randread", "bs": "4k", "iodepth": 8, "runtime": "50ms", "api": "host"}


def test_a_run_gives_records() -> None:
    result = warpbell.bench("soft:size=16m", **SHORT)
    (record,) = result.records()
    assert (record["device"], record["rw"], record["bs_bytes"], record["iodepth"]) == ("soft:size=16m", "randread", 4096, 8)
    assert record["iops"] > 0 and record["read.ios"] == record["ios"] and record["errors"] == 0
    assert result["iops"] == record["iops"]
    assert json.loads(json.dumps(record)) == record
    assert repr(result).startswith("<warpbell.BenchResult: randread 4096: ")


def test_a_list_is_a_sweep() -> None:
    words = {**SHORT, "iodepth": [1, 4], "bs": ("512", "4k")}
    records = warpbell.bench("soft:size=16m", progress=False, **words).records()
    assert [(record["bs_bytes"], record["iodepth"]) for record in records] == [(512, 1), (512, 4), (4096, 1), (4096, 4)]


def test_words_and_figures_have_names_of_their_own() -> None:
    """Each value of a document is in the record, and none took another's place."""
    words = {**SHORT, "rw": "write", "queues": [1, 2], "verify": "crc32c", "io_limit": "1m"}
    result = warpbell.bench("soft:size=16m", progress=False, **words)
    records = result.records()
    assert [record["queues"] for record in records] == [1, 2]
    assert [sum(f"run.queues.{number}.commands" in record for number in range(3)) for record in records] == [1, 2]
    for document, record in zip(result.documents, records, strict=True):
        (run,) = document["runs"]
        assert record["verify"] == run["job"]["verify"] and record["verify"] is not None
        assert not any(isinstance(value, dict) for value in record.values())
        assert not any(isinstance(one, dict) for value in record.values() if isinstance(value, list) for one in value)
        leaves = leaves_of({name: value for name, value in run.items() if name != "job"}) + leaves_of(run["job"])
        assert len(record) == leaves + 2, "with target and device"


def leaves_of(value: object) -> int:
    """Values in dicts, and in lists of dicts."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sum(map(leaves_of, value))
    return sum(map(leaves_of, value.values())) if isinstance(value, dict) else 1


def test_progress_is_shown_where_tqdm_is(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tqdm.py").write_text("seen = []\ndef tqdm(points, **_):\n    seen.extend(points)\n    return points\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tqdm", raising=False)
    warpbell.bench("soft:size=16m", **{**SHORT, "iodepth": [1, 2]})
    assert len(sys.modules["tqdm"].seen) == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"iodepht": 4}, "^word iodepht: warpbell bench has no such option; did you mean iodepth\\?$"),
        ({"blocksize": 4096}, "^word blocksize: warpbell bench has no such option; did you mean bs\\?$"),
        ({"ramp_time": 1}, "^word ramp_time: warpbell bench has no such option; did you mean ramp\\?$"),
        ({"output": "normal"}, "^word output: "),
        ({"help": True}, "^word help: "),
        ({"csv": "rows.csv"}, "^word csv: "),
    ],
)
def test_unknown_words_are_refused_by_name(words: dict[str, object], line: str) -> None:
    with pytest.raises(warpbell.ArgumentError, match=line):
        warpbell.bench("soft:size=16m", **words)


@pytest.mark.parametrize("device", ["", "--help", [], [7]])
def test_what_is_no_device_is_refused(device: object) -> None:
    with pytest.raises(warpbell.ArgumentTypeError, match="^device "):
        warpbell.bench(device, **SHORT)


def test_a_value_that_no_run_can_have_is_told_as_the_command_tells_it() -> None:
    with pytest.raises(warpbell.ArgumentError, match="^warpbell bench: .*bs"):
        warpbell.bench("soft:size=16m", **{**SHORT, "bs": "100"})


def test_a_run_that_fails_says_why(tmp_path: pathlib.Path) -> None:
    plan = tmp_path / "faults.toml"
    plan.write_text('[[fault]]\nkind = "fail"\nstatus = "Unrecovered Read Error"\nevery = 2\nopcode = "read"\n')
    with pytest.raises(warpbell.BenchError, match="^warpbell bench, exit code 1: ") as caught:
        warpbell.bench(f"soft:size=16m,faults={plan}", **SHORT)
    assert caught.value.exit_code == 1


def test_without_the_command_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPBELL_COMMAND", "/nowhere/warpbell")
    with pytest.raises(warpbell.MissingError, match="^the command /nowhere/warpbell is not available: No such file"):
        warpbell.bench("soft:size=16m", **SHORT)


def test_figures_are_finite() -> None:
    record = warpbell.bench("soft:size=16m", **SHORT).records()[0]
    assert all(math.isfinite(value) for value in record.values() if isinstance(value, float))
    with pytest.raises(warpbell.ArgumentError, match="^figure speed: a run has "):
        warpbell.bench("soft:size=16m", **SHORT)["speed"]
    assert os.environ.get("WARPBELL_COMMAND") is None


@pytest.mark.parametrize(("rates", "check", "code"), [((8.9, 10.0), True, 1), ((9.0, 10.0), True, 0), ((1.0, 10.0), False, 0)])
def test_a_slow_python_fails_the_check(rates: tuple[float, float], check: bool, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The best of all rounds counts, of each."""
    slow, fast = rates
    assert throughput.judge([(1e9 * fast, 1e8), (5e8, 1e9 * slow)], check) == code
    said = capsys.readouterr()
    assert f"Rust 10.00 GB/s, Python {slow:.2f} GB/s" in said.out and ("must be at least 90%" in said.err) == bool(code)


def test_an_empty_sweep_and_a_bar_without_tqdm_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(warpbell.ArgumentError, match=r"^word iodepth \[\]: the list is empty"):
        warpbell.bench("soft:size=16m", iodepth=[])
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(warpbell.MissingError, match="^progress True: needs the package tqdm"):
        warpbell.bench("soft:size=16m", progress=True, runtime="10ms")
