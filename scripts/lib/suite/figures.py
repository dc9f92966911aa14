"""tests/figures.toml: what was measured last, of what commit, and why it became worse where it did."""

import datetime
import subprocess
import tomllib
from dataclasses import dataclass

from steps import ROOT

FILE = ROOT / "tests/figures.toml"
# Figures of these kinds come out the same each time, so a fall is one of the code.
EXACT = ("virtual", "static")
# More of a fall than this has to be explained.
MOST = 0.03
# Behind a commit: files were changed since. Such a figure is written anew at the next occasion.
DIRTY = "-dirty"
RECORDS = ("tests/figures.toml", "tests/list/", "tests/steps.toml", "docs/testing.md")
HEADER = """\
# What Warpbell's speed and costs were when they were last written, and by which commit.
#
#   kind     virtual (virtual time: the same each run), static (from the compiler), size (bytes), real (this machine's
#            clock: of no use on another), seconds (what a run of the tests takes)
#   better   more or less
#   why      why it became worse than before by more than 3 %, where it did
#
# scripts/lib/check-figures compares those of the kinds virtual and static, and fails where one is worse by more than 3 %.
# scripts/lib/check-figures --update writes them anew, of a commit; --why TEXT explains what became worse.
"""


@dataclass
class Figure:
    name: str
    value: float
    unit: str
    kind: str
    better: str
    command: str
    commit: str = ""
    date: str = ""
    why: str = ""

    def worse(self, other):
        """By which part `other` is worse than this one: 0.03 for 3 %; below 0 where it is better."""
        if not self.value:
            return 0.0 if not other.value else (1.0 if self.better == "less" else -1.0)
        change = other.value / self.value - 1
        return change if self.better == "less" else -change


def load():
    """{name: Figure}"""
    rows = tomllib.loads(FILE.read_text()).get("figure", []) if FILE.exists() else []
    return {row["name"]: Figure(**row) for row in rows}


def save(figures):
    def text(figure):
        words = [f"{key} = {quoted(value)}" for key, value in vars(figure).items() if value != ""]
        return f"    {{ {', '.join(words)} }},\n"

    FILE.write_text(f"{HEADER}\nfigure = [\n{''.join(text(figure) for figure in figures.values())}]\n")


def quoted(value):
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f"{value:.10g}"


def judge(known, found):
    """(what fails, what is told) of the figures that were found: lines."""
    failed, told = [], []
    for name, figure in found.items():
        before = known.get(name)
        if before is None:
            failed.append(f"{name}: {figure.value:.6g} {figure.unit}: not in {FILE.relative_to(ROOT)}")
            continue
        if before.value == figure.value:
            continue
        line = f"{name}: {before.value:.6g} became {figure.value:.6g} {figure.unit}"
        bad = figure.kind in EXACT and before.worse(figure) > MOST
        (failed if bad else told).append(line)
    exact = [figure.name for figure in known.values() if figure.kind in EXACT and figure.name not in found]
    failed += [f"{name}: in {FILE.relative_to(ROOT)}, and nothing measures it" for name in exact]
    return failed, told


def update(known, found, why):
    """The figures as they are to be written; those that became worse without a reason are returned too."""
    unexplained, after = [], {name: figure for name, figure in known.items() if figure.kind not in EXACT or name in found}
    for name, figure in found.items():
        before = known.get(name)
        if before and before.value == figure.value:
            if not before.commit.endswith(DIRTY):
                continue
            figure.why = before.why
        elif before and figure.kind in EXACT and before.worse(figure) > MOST:
            if not why:
                unexplained.append(name)
                continue
            figure.why = why
        after[name] = stamped(figure)
    return after, unexplained


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def changed():
    """Files that are not those of the commit, but for what runs themselves record."""
    lines = git("status", "--porcelain", "--untracked-files=all").splitlines()
    return [line[3:] for line in lines if not line[3:].startswith(RECORDS)]


def stamped(figure):
    commit = git("describe", "--always").strip() + DIRTY * bool(changed())
    figure.commit, figure.date = commit, datetime.date.today().isoformat()
    return figure


def record_seconds(size, seconds):
    """What a whole run of the tests took."""
    command = "scripts/test" + ("" if size == "daily" else f" --{size}")
    figure = Figure(f"{command}, without set-up", seconds, "s", "seconds", "less", command)
    save(load() | {figure.name: stamped(figure)})
