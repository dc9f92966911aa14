"""Runs steps: as many beside each other as there are cores, each after those that it needs."""

import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field

from judge import FAILED, SKIPPED, Result, judge
from steps import ROOT

LOGS = ROOT / "target/test-logs"
# The profile that everything of a run is built with: scripts take built programs from its folder.
PROFILE = "checks"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
CI = os.environ.get("CI") == "true"


@dataclass
class Ran:
    """A step and what became of it."""

    step: object
    result: Result
    code: int = 0
    seconds: float = 0.0
    log: object = None
    skipped: str = ""

    @property
    def ok(self):
        return not self.result.counts[FAILED]


@dataclass
class Board:
    """What is to do, what runs, and what is done. One lock guards it."""

    left: list
    free: int
    known: frozenset
    done: dict = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self):
        """The next step that may begin now, with its cores; nothing where all are begun."""
        with self.changed:
            while self.left:
                chosen = self.next()
                if chosen:
                    self.left.remove(chosen)
                    self.free -= cores_of(chosen)
                    return chosen
                self.changed.wait()
            return None

    def next(self):
        """The first in the file's order that may begin: what it comes after is done, and its cores are free."""
        for step in self.left:
            if cores_of(step) <= self.free and all(name in self.done or name not in self.known for name in step.after):
                return step
        return None

    def finish(self, ran):
        with self.changed:
            self.done[ran.step.name] = ran
            self.free += cores_of(ran.step)
            self.changed.notify_all()


def cores():
    return os.cpu_count() or 1


def cores_of(step):
    """0 in the file: all there are."""
    return min(step.cores or cores(), cores())


def run_all(steps, told):
    """Runs the steps; `told(ran)` hears of each that ended, in the order in which they end. Returns them in the file's order."""
    board = Board(list(steps), cores(), frozenset(step.name for step in steps))
    numbers = {step.name: number for number, step in enumerate(steps, 1)}

    def work():
        while step := board.take():
            ran = run_step(step, numbers[step.name], board.done)
            told(ran)
            board.finish(ran)

    workers = [threading.Thread(target=work) for _ in range(cores())]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [board.done[step.name] for step in steps]


def run_step(step, number, done):
    """One step, unless something that it needs is missing or failed."""
    because = next((f"'{name}' failed" for name in step.after if name in done and not done[name].ok), "")
    missing = step.missing()
    if because or missing:
        return not_run(step, because or missing, must=bool(because) or (CI and step.tier in "USQ" and missing != ""))
    log = LOGS / f"{number:02d}-{re.sub(r'[^a-zA-Z0-9]+', '-', step.name)}.log"
    begin = time.monotonic()
    code = attempt(step, log, [])
    if code == EXIT_MISSING and step.parser != "nextest":
        return not_run(step, last_line(log), must=CI and step.tier in "USQ", log=log)
    result = read(step, code, log)
    if CI and result.counts[FAILED] and step.parser in ("plain", "programs", "libtest"):
        # Machines of continuous integration are held up by others. nextest has its own way to try a test again.
        log.rename(log.with_suffix(".first.log"))
        code = attempt(step, log, [])
        again = read(step, code, log)
        again.unsteady = [name for name, outcome in result.tests.items() if outcome == FAILED] or [step.name]
        result = again
    return Ran(step, result, code, time.monotonic() - begin, log)


EXIT_MISSING = 4


def not_run(step, why, must, log=None):
    """A step that cannot run here: skipped, or failed where its tier has to run."""
    result = Result()
    result.add(None, FAILED if must else SKIPPED, reason=f"{step.name}: {why}")
    return Ran(step, result, skipped=why, log=log)


def last_line(log):
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1].removeprefix("error: ") if lines else "it said nothing"


def attempt(step, log, more):
    """Runs the command into the log; returns its exit code."""
    env = dict(os.environ, CARGO_TERM_COLOR="never", WARPBELL_PROFILE=PROFILE, **step.env)
    command = nextest_command(step, log) if step.parser == "nextest" else step.command
    with open(log, "w") as output:
        try:
            return subprocess.run(command + more, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, check=False).returncode
        except OSError as error:
            output.write(f"error: {command[0]}: {error}\n")
            return 1


def read(step, code, log):
    result = judge(step, code, log.read_text(errors="replace"), report_of(step, log))
    with open(log, "a") as end:
        result.settle(code, end)
    return result


def profile_of(step):
    """nextest's profile (.config/nextest.toml): a step of --deep may take hours."""
    return "deep" if step.size == "deep" else "suite"


def report_of(step, log):
    """Where nextest leaves its report of a step."""
    return TARGET / "nextest" / profile_of(step) / log.with_suffix(".xml").name


def nextest_command(step, log):
    """nextest over what the build step built, with a report of the step's own."""
    config = log.with_suffix(".toml")
    text = (ROOT / ".config/nextest.toml").read_text()
    config.write_text(text.replace('path = "junit.xml"', f'path = "{report_of(step, log).name}"'))
    report_of(step, log).unlink(missing_ok=True)
    retries = ["--retries", "1"] if CI else []
    return [*step.prefix, "cargo", "nextest", "run", "--config-file", str(config), "--profile", profile_of(step),
            "--color", "never", "--cargo-metadata", str(LOGS / "cargo.json"), "--binaries-metadata", str(LOGS / "binaries.json"),
            *retries, *step.command]
