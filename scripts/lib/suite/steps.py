"""Steps: what tests/steps.toml says, and which of them a run takes."""

import os
import pathlib
import re
import shutil
import tomllib
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[3]
FILE = ROOT / "tests/steps.toml"
SIZES = ("daily", "all", "deep")
TIERS = {
    "U": "unit, property, CUDA compile matrix, house checks",
    "S": "soft controller + CPU target, sanitizers",
    "Q": "QEMU guest",
    "V": "vfio-user socket",
    "G": "CUDA GPU",
    "R": "real SSD + GPU",
}
PARSERS = ("exit", "plain", "programs", "nextest", "libtest")


class BadSteps(Exception):
    """tests/steps.toml says something that makes no sense, or has no step that is asked for."""


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

    def check(self, names):
        def wrong(key, value, limit):
            raise BadSteps(f"{FILE.relative_to(ROOT)}: step '{self.name}': {key} = {value}: {limit}")

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
                if other not in names:
                    wrong(key, other, "a step before this one")
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


def load(text=None):
    """Every step, in the file's order."""
    rows = tomllib.loads(FILE.read_text() if text is None else text)["step"]
    steps = []
    for row in rows:
        try:
            step = Step(**row)
        except TypeError as error:
            raise BadSteps(f"{FILE.relative_to(ROOT)}: step '{row.get('name', '?')}': {error}") from None
        step.check({s.name for s in steps})
        if step.name in {s.name for s in steps}:
            raise BadSteps(f"{FILE.relative_to(ROOT)}: two steps are called '{step.name}'")
        steps.append(step)
    for step in steps:
        leave(step, {s.name: s for s in steps})
    return steps


def leave(step, by_name):
    """Takes the tests of the steps that it `leaves` out of the filter of a step: no filter is written twice."""
    for name in step.leaves:
        other = by_name.get(name)
        if step.command[0] != "-E" or other is None or other.command[0] != "-E":
            raise BadSteps(f"{FILE.relative_to(ROOT)}: step '{step.name}': leaves = {name}: steps of nextest with a filter, both")
        step.command[1] = f"({step.command[1]}) and not ({other.command[1]})"


def choose(steps, size, tier=None, texts=()):
    """The steps of a run: those asked for, and what they come after."""
    wanted = [s for s in steps if s.in_size(size) and (tier in (None, s.tier)) and (not texts or any(t in s.name for t in texts))]
    names = {s.name for s in wanted}
    for step in reversed(steps):
        if step.name in names:
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
