"""What the log of a step says: tests that passed, failed and were skipped, with their names."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# A test that could not run says so and passes; the name of the test may stand before the reason, a remedy behind it.
SKIP = re.compile(r"^skipped: (?:[a-z0-9]+_[a-z0-9_]+: )?([^;\n]*)", re.MULTILINE)
# Those are run by the guest's own step.
ELSEWHERE = re.compile(r"^skipped: .*scripts/guest", re.MULTILINE)


@dataclass
class Result:
    """What became of a step."""

    counts: Counter = field(default_factory=Counter)
    # By name of the test: what became of it. Steps without names have none.
    tests: dict = field(default_factory=dict)
    # By tier, where tests of one step belong to several.
    tiers: dict = field(default_factory=dict)
    reasons: list = field(default_factory=list)
    unsteady: list = field(default_factory=list)

    def add(self, name, outcome, tier=None, reason=""):
        self.counts[outcome] += 1
        if name:
            self.tests[name] = outcome
        if tier:
            self.tiers.setdefault(tier, Counter())[outcome] += 1
        if reason and reason not in self.reasons:
            self.reasons.append(reason)

    def settle(self, code, log):
        """A command that failed without a failing test is one failure; one that ran nothing has shown nothing."""
        if code == 0 and not self.counts[PASSED]:
            log.write("error: no test ran\n")
            code = 1
        if code != 0 and not self.counts[FAILED]:
            self.counts[FAILED] += 1
        return code


def judge(step, code, text, junit=None):
    """The result of a step that ended with `code` and said `text`."""
    result = Result()
    if step.parser == "exit":
        result.counts[PASSED] += code == 0
    elif step.parser == "plain":
        plain(result, text)
    elif step.parser == "programs":
        programs(result, text)
    elif step.parser == "libtest":
        libtest(result, text, step.tier)
    elif junit is not None and junit.exists():
        nextest(result, junit.read_text(), step.tier)
    return result


def plain(result, text):
    """One line for all: N passed, N failed, and what was skipped if that can be."""
    lines = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", text, re.MULTILINE)
    passed, failed, skipped = lines[-1] if lines else ("0", "0", "")
    result.counts.update({PASSED: int(passed), FAILED: int(failed), SKIPPED: int(skipped or 0)})


def programs(result, text):
    """A line for each program, with its assertions: NAME: N passed, N failed; or SKIPPED: WHY."""
    for name, failed in re.findall(r"^([a-z_0-9]+): \d+ passed, (\d+) failed$", text, re.MULTILINE):
        result.add(f"program {name}", FAILED if failed != "0" else PASSED)
    for reason in re.findall(r"^SKIPPED: (.*)$", text, re.MULTILINE):
        result.add(None, SKIPPED, reason=reason)
    if re.search(r"^FAILED: ", text, re.MULTILINE) and not result.counts[FAILED]:
        result.counts[FAILED] += 1


def skip_of(said):
    """(whether it was skipped, whether it runs elsewhere, why)."""
    found = SKIP.search(said or "")
    if not found:
        return False, False, ""
    return True, bool(ELSEWHERE.search(said)), found[1].strip()


def tier_of(binary, tier):
    """The tier of one test binary, in a step of that tier. Unit tests are a binary with the crate's name."""
    short = binary.split("::", 1)[-1]
    if "::" not in binary or short.startswith("bin/") or short in ("cuda_matrix", "abi", "headers", "toolchain"):
        return "U"
    if binary == "warpbell-ptx::machine":
        return "P"
    if short == "vfio_user":
        return "V"
    lower = ("warpbell-nvme", "warpbell-hw", "warpbell-softctl", "warpbell-driver", "warpbell-vfio", "warpbell-plan",
             "warpbell-platform", "warpbell-data", "warpbell-gpu", "warpbell-ptx")
    return "U" if binary.split("::")[0] in lower else tier


def nextest(result, text, tier):
    """nextest's JUnit report, which has what each test said."""
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname')} {case.get('name')}"
        of = tier_of(case.get("classname"), tier)
        skipped, elsewhere, reason = skip_of(case.findtext("system-out"))
        if case.find("failure") is not None or case.find("error") is not None:
            result.add(name, FAILED, of)
        elif elsewhere:
            continue
        elif skipped:
            result.add(name, SKIPPED, of, reason)
        else:
            result.add(name, PASSED, of)
        if case.find("flakyFailure") is not None or case.find("flakyError") is not None:
            result.unsteady.append(name)


RUNNING = re.compile(r"^ +(?:Running (?:.*/)?([^/ ]+?)(?:-[0-9a-f]+)?\)?|Running scene (\S+) .*|Doc-tests (\S+))$")
TEST = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored.*)$")


def libtest(result, text, tier):
    """What libtest prints with --show-output, of several programs one after the other: each told by cargo's line."""
    program, last = "", None
    outcomes = {}
    for line in text.splitlines():
        running, test = RUNNING.match(line), TEST.match(line)
        if running:
            program = running[1] or running[2] or f"{running[3]} doc"
            scene = re.match(r"^ +Running scene (\S+)", line)
            program = f"guest {scene[1]}" if scene else program
        elif test:
            outcomes[f"{program} {test[1]}"] = [test[2], ""]
        elif line.startswith("---- ") and line.endswith(" stdout ----"):
            last = f"{program} {line[5:-12]}"
        elif line.startswith("skipped: ") and last in outcomes:
            outcomes[last][1] = line
    for name, (said, why) in outcomes.items():
        skipped, elsewhere, reason = skip_of(why)
        if said.startswith("FAILED"):
            result.add(name, FAILED, tier)
        elif said.startswith("ignored"):
            result.add(name, SKIPPED, tier, said.removeprefix("ignored").removeprefix(", "))
        elif skipped and not elsewhere:
            result.add(name, SKIPPED, tier, reason)
        elif not skipped:
            result.add(name, PASSED, tier)
    crashed = re.search(r"^error: scene \S+: no test ran|^error: test failed|^error: could not compile", text, re.MULTILINE)
    if crashed and not result.counts[FAILED]:
        result.counts[FAILED] += 1
