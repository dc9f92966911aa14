"""tests/list.txt: every test there is, by the step that runs it, so that none is lost without a line that says so."""

from judge import FAILED
from steps import ROOT

FILE = ROOT / "tests/list.txt"
HEADER = """\
# Every test that has a name, below the step of tests/steps.toml that runs it. scripts/test compares: a test that is here
# and did not run fails the step, and so does one that ran and is not here. `--record` writes the steps that ran:
# `scripts/test --all --record`, and `scripts/test --record` for steps of the daily run alone.
"""


def load():
    """{step: [names]}"""
    found, step = {}, None
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        if line.startswith("== "):
            step = line[3:]
            found[step] = []
        elif line and not line.startswith("#"):
            found[step].append(line)
    return found


def differences(ran, listed):
    """What is wrong with the names that a step ran: lines."""
    if ran.skipped or not (ran.result.tests or listed):
        return []
    names = set(ran.result.tests)
    lost = [f"listed below '{ran.step.name}' and did not run: {name}" for name in listed if name not in names]
    new = [f"not in tests/list.txt: {name}" for name in sorted(names - set(listed))]
    return lost + new


def compare(all_ran):
    """Counts what is lost or not listed as a failure of its step; returns {step: [lines]}."""
    listed, wrong = load(), {}
    for ran in all_ran:
        lines = differences(ran, listed.get(ran.step.name, []))
        if lines:
            ran.result.counts[FAILED] += 1
            wrong[ran.step.name] = lines
    return wrong


def record(all_ran, steps):
    """Writes the names of the steps that ran; keeps those of steps that are there and did not run now."""
    listed = load()
    listed.update({ran.step.name: sorted(ran.result.tests) for ran in all_ran if not ran.skipped and ran.result.tests})
    parts = [f"== {step.name}\n" + "".join(f"{name}\n" for name in listed[step.name]) for step in steps if listed.get(step.name)]
    FILE.write_text(HEADER + "\n" + "\n".join(parts))
