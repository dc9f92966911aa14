"""`warpbell bench` from Python: runs the command, and gives what it measured as objects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .errors import ArgumentError, ArgumentTypeError, BenchError, MissingError

# Options that may be given several times. A list for any other word is a sweep.
_REPEATED = frozenset({"allow-write"})
# What this module gives the command itself, and files of whole sweeps: here each point is a command.
_OWN = frozenset({"output", "device", "help", "csv", "resume"})
# The command's exit code for a word or value that it refuses.
_USAGE = 2
# Words of fio that the command has by another name.
_FIO = {
    "blocksize": "bs",
    "io_size": "io_limit",
    "numjobs": "queues",
    "ramp_time": "ramp",
    "randseed": "seed",
    "readwrite": "rw",
}


class BenchResult:
    """What `bench` measured. Any number of threads may use it."""

    def __init__(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self.documents = list(documents)
        """What the command printed, parsed: one for each point of a sweep."""

    def records(self) -> list[dict[str, Any]]:
        """One flat dict for each run, ready for `pandas.DataFrame` or `polars.DataFrame`: the words by their names, such as
        `queues`, then what was measured; `run.` is before a name that is a word, too, such as `run.queues.0.commands`."""
        return [_record(document, run) for document in self.documents for run in document["runs"]]

    def __getitem__(self, name: str) -> Any:
        """A figure of the only run, such as `result["iops"]`."""
        records = self.records()
        if len(records) != 1:
            raise ArgumentError(f"figure {name}: there are {len(records)} runs: take one of records()")
        if name not in records[0]:
            raise ArgumentError(f"figure {name}: a run has {', '.join(sorted(records[0]))}")
        return records[0][name]

    def __repr__(self) -> str:
        each = (f"{record['rw']} {record['bs_bytes']}: {record['iops']:.0f} IOPS" for record in self.records())
        return f"<warpbell.BenchResult: {'; '.join(each)}>"


def bench(device: str | Sequence[str], *, progress: bool | None = None, **fio_words: Any) -> BenchResult:
    """Measures reads and writes by `warpbell bench`, which documents the words: `rw="randread"`, `bs="4k"`, `iodepth=32`.

    Words have `_` for `-`; True gives an option that takes no value. A list for a word is a sweep: all combinations are
    measured, with a progress bar where tqdm is there (`progress=False`: none).
    """
    command = _command()
    devices = [device] if isinstance(device, str) else list(device) if isinstance(device, Iterable) else []
    if not devices or not all(isinstance(name, str) and name and not name.startswith("-") for name in devices):
        raise ArgumentTypeError(f"device {device!r}: must be the name of an SSD, such as soft:size=1g, or a list of such")
    _check_words(command, fio_words)
    points = list(_points(fio_words))
    documents = [_run([command, "bench", *devices, *options, "--output", "json"]) for options in _shown(points, progress)]
    return BenchResult(documents)


def _command() -> str:
    """The command: the one of the variable, that of this environment, or of the PATH."""
    import shutil
    import sysconfig

    chosen = os.environ.get("WARPBELL_COMMAND")
    if chosen:
        return chosen
    found = shutil.which("warpbell", path=sysconfig.get_path("scripts")) or shutil.which("warpbell")
    if found is None:
        raise MissingError("the command warpbell is not available: put it on the PATH, or name it in WARPBELL_COMMAND")
    return found


def _check_words(command: str, words: Iterable[str]) -> None:
    import re

    known = {name for name in re.findall(r"--([a-z][a-z0-9-]+)", _run_text([command, "bench", "--help"])) if name not in _OWN}
    for word in words:
        if word.replace("_", "-") not in known:
            import difflib

            near = [_FIO[word]] if word in _FIO else difflib.get_close_matches(word, [name.replace("-", "_") for name in known], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ArgumentError(f"word {word}: warpbell bench has no such option{hint}")


def _points(words: Mapping[str, Any]) -> Iterator[list[str]]:
    """The options of each point of a sweep."""
    import itertools

    choices = []
    for word, value in words.items():
        name = word.replace("_", "-")
        many = isinstance(value, (list, tuple, range))
        if many and not value:
            raise ArgumentError(f"word {word} {value!r}: the list is empty; at least 1 value")
        if many and name not in _REPEATED:
            choices.append([_option(name, one) for one in value])
        else:
            choices.append([[text for one in (value if many else [value]) for text in _option(name, one)]])
    for point in itertools.product(*choices):
        yield [text for option in point for text in option]


def _option(name: str, value: Any) -> list[str]:
    if value is True:
        return [f"--{name}"]
    if value is False or value is None:
        return []
    return [f"--{name}={value}"]


def _shown(points: list[list[str]], progress: bool | None) -> Iterable[list[str]]:
    """The points, with a progress bar where that was asked for, or there are several."""
    if progress is False or (progress is None and len(points) < 2):
        return points
    import importlib

    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError:
        if progress:
            raise MissingError("progress True: needs the package tqdm; pip install tqdm") from None
        return points
    bar: Iterable[list[str]] = tqdm(points, unit="run", desc="warpbell bench")
    return bar


def _run(command: list[str]) -> Any:
    import json

    return json.loads(_run_text(command))


def _run_text(command: list[str]) -> str:
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise MissingError(f"the command {command[0]} is not available: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith("error")), lines[-1] if lines else "no message")
        said = said.removeprefix("error:").strip()
        if done.returncode == _USAGE:
            raise ArgumentError(f"warpbell bench: {said}")
        failure = BenchError(f"warpbell bench, exit code {done.returncode}: {said}")
        failure.exit_code = done.returncode
        raise failure
    return done.stdout


def _record(document: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """One run as a flat dict: what was asked for, then what was measured."""
    record: dict[str, Any] = {"target": document["target"]}
    device = document.get("device")
    if isinstance(device, dict):
        record["device"] = device.get("name")
    for name, value in run["job"].items():
        record.update(_flat(name, value))
    for name, value in run.items():
        if name != "job":
            # What was measured has the word's name in `queues` and `verify`.
            record.update(_flat(f"run.{name}" if name in run["job"] else name, value))
    return record


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Figures in dicts get names with a point: read.iops. So do those of lists of dicts, with a number: ssds.0.iops."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        value = {str(number): one for number, one in enumerate(value)}
    if not isinstance(value, dict):
        return {name: value}
    flat: dict[str, Any] = {}
    for inner, figure in value.items():
        flat.update(_flat(f"{name}.{inner}", figure))
    return flat
