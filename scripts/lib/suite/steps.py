"""Steps: what tests/steps.toml says, and which of them a run takes."""

import os
import pathlib
import re
import shutil
import tomllib
from dataclasses import MISSING, dataclass, field, fields

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = ROOT / "tests/steps.toml"
SIZES = ("daily", "all", "deep")
TIERS = {
    "U": "unit, property, CUDA compile matrix, house checks",
    "S": "soft controller + CPU target, sanitizers",
    "Q": "QEMU guest",
    "V": "vfio-user socket",
    "P": "what compilers made of the kernels, on the PTX machine",
    "G": "CUDA GPU",
    "R": "real SSD + GPU",
}
PARSERS = ("exit", "plain", "programs", "nextest", "libtest")
# What the keys of a row may have, by their types below.
KINDS = {
    str: ("a text", lambda value: value != ""),
    int: ("a whole number, at least 0", lambda value: value >= 0),
    bool: ("true or false", lambda value: True),
    list: ('texts: ["a", "b"]', lambda value: all(type(one) is str for one in value)),
    dict: ('texts by name: { A = "b" }', lambda value: all(type(one) is str for one in value.values())),
}


class BadSteps(Exception):
    """tests/steps.toml or tests/list/ says something that makes no sense, or there is no step that is asked for."""


def first_log(log):
    """Where the log of a step lies that ran again."""
    return log.with_suffix(".first.log")


def bad(said):
    return BadSteps(f"{os.path.relpath(FILE, ROOT)}: {said}")


@dataclass
class Step:
    """One row of the file."""

    name: str
    tier: str
    size: str
    command: list
    prefix: list = field(default_factory=list)
    parser: str = "exit"
    budget_s: int = 60
    # None: nobody has recorded it yet.
    last_s: int = None
    # Of the parser `plain`: how many passed, when that was recorded. 0: nobody has.
    passed: int = 0
    cores: int = 1
    needs: list = field(default_factory=list)
    after: list = field(default_factory=list)
    behind: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    # Runs in this size alone: a smaller stand of a step that a larger size has whole.
    only: bool = False
    # Steps of nextest whose tests this one leaves to them, besides those that its own filter leaves out.
    leaves: list = field(default_factory=list)

    def check(self, before, everywhere):
        """Raises for what makes no sense; `before`: the steps that stand before this one, of those `everywhere`."""
        def wrong(key, value, limit):
            raise bad(f"step '{self.name}': {key} = {value}: {limit}")

        for key in fields(self):
            value, (limit, holds) = getattr(self, key.name), KINDS[key.type]
            if value is not None and not (type(value) is key.type and holds(value)):
                wrong(key.name, repr(value), limit)
        if self.tier not in TIERS:
            wrong("tier", self.tier, f"one of {', '.join(TIERS)}")
        if self.size not in SIZES:
            wrong("size", self.size, f"one of {', '.join(SIZES)}")
        if self.parser not in PARSERS:
            wrong("parser", self.parser, f"one of {', '.join(PARSERS)}")
        if not self.command:
            wrong("command", self.command, "at least one word")
        for key, others in (("after", self.after), ("behind", self.behind)):
            for other in others:
                if other not in before:
                    wrong(key, other, "it stands later" if other in everywhere else "no such step")
        if self.passed and self.parser != "plain":
            wrong("passed", self.passed, "only of the parser plain: the others have names or are one test")

    def in_size(self, size):
        return self.size == size if self.only else SIZES.index(self.size) <= SIZES.index(size)

    @property
    def runs(self):
        """The runs that have it."""
        return f"{self.size} alone" if self.only else self.size

    @property
    def took(self):
        return "-" if self.last_s is None else str(self.last_s or "<1")

    def missing(self):
        """Why it cannot run here, or nothing."""
        for need in self.needs:
            reason = lacks(need)
            if reason:
                return reason
        return ""


def lacks(need):
    """Why a need is not met: a program of the PATH, or one of the words below."""
    if need == "c++":
        names = [os.environ.get("CXX", ""), "c++", "g++", "clang++", "clang++-19"]
        return "" if any(name and shutil.which(name) for name in names) else "no C++ compiler"
    if need == "gpu":
        return "" if pathlib.Path("/proc/driver/nvidia/version").exists() else "no GPU here: scripts/gpu-check runs where there is one"
    if need == "hardware":
        return "needs your hardware; not built yet"
    return "" if shutil.which(need) else f"no {need}"


def rows_of(text):
    try:
        found = tomllib.loads(FILE.read_text() if text is None else text)
    except OSError as error:
        raise bad(error.strerror) from None
    except ValueError as error:
        raise bad(error) from None
    other = next((key for key in found if key != "step"), "")
    if other:
        raise bad(f"unknown key '{other}': rows begin with [[step]]")
    rows = found.get("step")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise bad("no step: rows begin with [[step]]")
    return rows


def step_of(row):
    known = {key.name: key.default is MISSING and key.default_factory is MISSING for key in fields(Step)}
    of = f"step '{row.get('name', '?')}'"
    for key in row:
        if key not in known:
            raise bad(f"{of}: unknown key '{key}': one of {', '.join(known)}")
    for key, must in known.items():
        if must and key not in row:
            raise bad(f"{of}: no key '{key}'")
    return Step(**row)


def load(text=None):
    """Every step, in the file's order."""
    steps, before = [step_of(row) for row in rows_of(text)], set()
    everywhere = [step.name for step in steps]
    for step in steps:
        step.check(before, everywhere)
        if step.name in before:
            raise bad(f"two steps are called '{step.name}'")
        before.add(step.name)
    for step in steps:
        leave(step, {s.name: s for s in steps})
    return steps


def leave(step, by_name):
    """Takes the tests of the steps that it `leaves` out of the filter of a step: no filter is written twice."""
    for name in step.leaves:
        other = by_name.get(name)
        if step.command[0] != "-E" or other is None or other.command[0] != "-E":
            raise bad(f"step '{step.name}': leaves = {name}: steps of nextest with a filter, both")
        step.command[1] = f"({step.command[1]}) and not ({other.command[1]})"


def choose(steps, size, tier=None, texts=()):
    """The steps of a run: those asked for, and what they come after. One that cannot run here needs nothing before it."""
    wanted = [s for s in steps if s.in_size(size) and (tier in (None, s.tier)) and (not texts or any(t.lower() in s.name.lower() for t in texts))]
    names = {s.name for s in wanted}
    for step in reversed(steps):
        if step.name in names and not step.missing():
            names |= set(step.after)
    return [s for s in steps if s.name in names]


def record(all_ran):
    """Writes into the file what the steps that passed took, and how many passed of those whose tests have no names."""
    head, *rows = FILE.read_text().split("[[step]]\n")
    ran = {one.step.name: one for one in all_ran if one.ok and not one.skipped}
    for at, row in enumerate(rows):
        one = ran.get(tomllib.loads(row)["name"])
        if one:
            row = with_key(row, "last_s", round(one.seconds))
        if one and one.step.parser == "plain":
            one.step.passed = one.result.counts["passed"]
            row = with_key(row, "passed", one.step.passed)
        rows[at] = row
    FILE.write_text("[[step]]\n".join([head, *rows]))


def with_key(row, key, value):
    """A row of the file with another value of a key, which goes behind the last one where it is not there."""
    row = re.sub(rf"^{key} = .*\n", "", row, flags=re.MULTILINE)
    return re.sub(r"\A((?:.*\n)*[a-z_]+ = .*\n)", rf"\g<1>{key} = {value}\n", row)


PAGE = ROOT / "docs/testing.md"
BEGIN, END = "<!-- steps: scripts/test --all --record writes this table -->\n", "<!-- end of steps -->\n"


def table(steps):
    """What docs/testing.md shows of the file."""
    rows = ["| step | tier | size | s | budget, s |", "| --- | --- | --- | --- | --- |"]
    rows += [f"| {step.name} | {step.tier} | {step.runs} | {step.took} | {step.budget_s} |" for step in steps]
    return "\n".join(rows) + "\n"


def write_table():
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + "\n" + table(load()) + "\n" + END + after)
