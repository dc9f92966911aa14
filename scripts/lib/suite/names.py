"""What a run must have: the tests of tests/list/, by the step that runs them, and as many of a step whose tests have no
names as tests/steps.toml says. So none is lost without a line that says so."""

import os
import re
import textwrap
from dataclasses import dataclass

import schedule
from judge import FAILED, PASSED, SKIPPED
from steps import ROOT, BadSteps

FOLDER = ROOT / "tests/list"
# Most lines of a file; a crate with more has one of its own.
MOST_LINES = 900
HEADER = "# Every test of a step, by programs: docs/testing.md tells. `scripts/test --record` writes it.\n"


@dataclass
class Section:
    """The tests of one step, and the runs that had it when they were listed."""

    size: str
    names: list


def load():
    """{step: Section}"""
    found = {}
    for file in sorted(FOLDER.glob("*.txt")):
        load_file(file, found)
    return found


def load_file(file, found):
    """Below a step, each program's name, and indented below that its tests."""
    section, program = None, ""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        head = re.fullmatch(r"== (.+) \((.+)\)", line)
        if head:
            section = found.setdefault(head[1], Section(head[2], []))
        elif line and not line.startswith("#"):
            if section is None or line.startswith("=="):
                raise BadSteps(f"{os.path.relpath(file, ROOT)}:{number}: {line}: belongs below a line == STEP (SIZE)")
            if line.startswith(" "):
                section.names += [f"{program} {name}" for name in line.split()]
            else:
                program = line


def save(listed):
    """In files by number, as much in each as there is room for."""
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.txt"):
        file.unlink()
    for number, text in enumerate(files(listed), 1):
        (FOLDER / f"{number:02}.txt").write_text(text)


def files(listed):
    """The texts of the files: pieces in the order of steps and crates."""
    texts = []
    for piece in pieces(listed):
        if not texts or texts[-1].count("\n") + piece.count("\n") > MOST_LINES:
            texts.append(HEADER)
        texts[-1] += piece
    return texts


def pieces(listed):
    """Each crate of each section."""
    for step, section in sorted(listed.items()):
        crates = {} if section.names else {"": []}
        for test in section.names:
            crates.setdefault(re.split("[ :]", test)[0], []).append(test)
        for tests in crates.values():
            yield f"\n== {step} ({section.size})\n{by_program(tests)}"


def by_program(tests):
    """Each program, and its tests in lines below it."""
    programs = {}
    for test in tests:
        program, name = test.rsplit(" ", 1)
        programs.setdefault(program, []).append(name)
    indented = {"initial_indent": "  ", "subsequent_indent": "  ", "break_on_hyphens": False, "break_long_words": False}
    return "".join(f"{program}\n{textwrap.fill(' '.join(found), 182, **indented)}\n" for program, found in programs.items())


def astray(steps, listed):
    """Sections whose step is gone, or in other runs than when it was listed: lines."""
    runs, wrong = {step.name: step.runs for step in steps}, []
    for name, section in listed.items():
        now = runs.get(name)
        if now != section.size:
            wrong.append(f"section '{name} ({section.size})' of {os.path.relpath(FOLDER, ROOT)}: " + (f"the step is '{now}' now" if now else "no such step"))
    return wrong


def unbooted(ran):
    """How names begin of scenes that the guest skipped, as their kernel cannot be had. Continuous integration has to have all."""
    scenes = [re.fullmatch(r"guest (\S+) scene_\1", name) for name, outcome in ran.result.tests.items() if outcome == SKIPPED]
    return () if schedule.CI else tuple(f"guest {scene[1]} " for scene in scenes if scene)


def differences(ran, listed):
    """What is wrong with the names that a step ran: lines."""
    if ran.skipped or not (ran.result.tests or listed):
        return []
    here, without = set(ran.result.tests), unbooted(ran)
    lost = [f"listed below '{ran.step.name}' and did not run: {name}" for name in listed if name not in here and not name.startswith(without)]
    new = [f"not in tests/list: {name}" for name in sorted(here - set(listed)) if not name.startswith(without)]
    return lost + new


def too_few(ran):
    """Of a step whose tests have no names: that fewer passed than before. What could not run here is told as skipped; continuous
    integration has to have all."""
    counts, known = ran.result.counts, ran.step.passed
    passed = counts[PASSED] + (0 if schedule.CI else counts[SKIPPED])
    if ran.skipped or not ran.ok or passed >= known:
        return []
    return [f"{passed} passed, and {known} when that was last recorded in tests/steps.toml"]


def compare(all_ran):
    """Counts what is lost or not listed as a failure of its step; returns {step: [lines]}."""
    listed, wrong = load(), {}
    for ran in all_ran:
        section = listed.get(ran.step.name)
        lines = differences(ran, section.names if section else []) + too_few(ran)
        if lines:
            ran.result.counts[FAILED] += 1
            wrong[ran.step.name] = lines
    return wrong


def record(all_ran):
    """Writes the names of the steps that passed; keeps those of the others, also of steps that are gone: a person drops them."""
    listed = load()
    for ran in all_ran:
        if ran.ok and not ran.skipped and ran.result.tests:
            before, without = listed.get(ran.step.name, Section("", [])).names, unbooted(ran)
            kept = {name for name in before if name.startswith(without)}
            here = {name for name in ran.result.tests if not name.startswith(without)}
            listed[ran.step.name] = Section(ran.step.runs, sorted(here | kept))
    save(listed)
