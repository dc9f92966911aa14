"""Runs steps: as many beside each other as there are cores, each after those that it needs."""

import os
import re
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field

from children import Children
from judge import FAILED, PASSED, SKIPPED, Result, judge
from steps import ROOT, first_log

LOGS = ROOT / "target/test-logs"
# The profile that everything of a run is built with: scripts take built programs from its folder.
PROFILE = "checks"
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
    children: Children = field(default_factory=Children)
    changed: threading.Condition = field(default_factory=threading.Condition)
    # One step is told at a time.
    telling: threading.Lock = field(default_factory=threading.Lock)

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
        """The first in the file's order that may begin: what it comes after or is behind is done, and its cores are free."""
        for step in self.left:
            if cores_of(step) <= self.free and all(name in self.done or name not in self.known for name in step.after + step.behind):
                return step
        return None

    def finish(self, ran):
        with self.changed:
            self.done[ran.step.name] = ran
            self.free += cores_of(ran.step)
            self.changed.notify_all()

    def end(self):
        """Begins nothing more, and ends what runs."""
        with self.changed:
            self.left.clear()
            self.changed.notify_all()
        self.children.end()


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
            ran = Ran(step, Result())
            try:
                ran = outcome(step, log_of(step, numbers[step.name]), board, told)
            finally:
                board.finish(ran)

    workers = [threading.Thread(target=work) for _ in range(cores())]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        board.end()
        raise
    return [board.done[step.name] for step in steps]


def log_of(step, number):
    return LOGS / f"{number:02d}-{re.sub(r'[^a-zA-Z0-9]+', '-', step.name)}.log"


def outcome(step, log, board, told):
    """What became of a step, which is told. What goes wrong in here fails the step."""
    try:
        ran = run_step(step, log, board)
    except Exception as error:
        ran = broken(step, log, error)
    try:
        with board.telling:
            if not board.children.ended:
                told(ran)
    except Exception as error:
        ran = broken(step, log, error)
    return ran


def broken(step, log, error):
    """A step that could not be run or judged: the disk is full, a report breaks off."""
    said = f"error: the runner: {error!r}\n{''.join(traceback.format_exception(error))}"
    try:
        with open(log, "a") as end:
            end.write(said)
    except OSError:
        print(said, file=sys.stderr)
        log = None
    result = Result()
    result.add(None, FAILED, reason=f"{step.name}: the runner: {error!r}")
    return Ran(step, result, code=1, log=log)


def run_step(step, log, board):
    """One step, unless something that it needs is missing, failed or was skipped."""
    before = [board.done[name] for name in step.after if name in board.done]
    failed = next((f"'{one.step.name}' failed" for one in before if not one.ok), "")
    skipped = next((f"after '{one.step.name}', which was skipped" for one in before if one.skipped), "")
    missing = step.missing()
    if failed or skipped or missing:
        return not_run(step, failed or skipped or missing, must=bool(failed) or (CI and step.tier in "USQP"))
    begin = time.monotonic()
    code = attempt(step, log, board.children)
    missing = cannot_run(log) if code == EXIT_MISSING and step.parser != "nextest" else ""
    if missing:
        return not_run(step, missing, must=CI and step.tier in "USQP", log=log)
    result = read(step, code, log)
    if CI and result.counts[FAILED] and step.parser in ("plain", "programs", "libtest"):
        # Machines of continuous integration are held up by others. nextest has its own way to try a test again.
        log.rename(first_log(log))
        code = attempt(step, log, board.children)
        again = read(step, code, log)
        again.unsteady = unsteady(step, result, again)
        result = again
    return Ran(step, result, code, time.monotonic() - begin, log)


def unsteady(step, first, again):
    """What failed and passed when it ran again: tests, or the step if no test of it that has a name failed."""
    failed = [name for name, outcome in first.tests.items() if outcome == FAILED]
    if not failed:
        return [] if again.counts[FAILED] else [step.name]
    return [name for name in failed if again.tests.get(name) == PASSED]


# With a line `cannot run: WHY`: what the step needs is not here. Without one it is a failure as any other: `warpbell` has
# this code, too.
EXIT_MISSING = 4


def cannot_run(log):
    found = re.findall(r"^cannot run: (.+)$", log.read_text(errors="replace"), re.MULTILINE)
    return found[-1] if found else ""


def not_run(step, why, must, log=None):
    """A step that cannot run here: skipped, or failed where its tier has to run."""
    result = Result()
    result.add(None, FAILED if must else SKIPPED, reason=f"{step.name}: {why}")
    return Ran(step, result, skipped=why, log=log)


def attempt(step, log, children):
    """Runs the command into the log; returns its exit code."""
    env = dict(os.environ, CARGO_TERM_COLOR="never", WARPBELL_PROFILE=PROFILE, **step.env)
    command = nextest_command(step, log) if step.parser == "nextest" else step.command
    with open(log, "w") as output:
        try:
            return children.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
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
    """Where nextest leaves its report of a step: in the workspace, wherever cargo builds."""
    return ROOT / "target/nextest" / profile_of(step) / log.with_suffix(".xml").name


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
