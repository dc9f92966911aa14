"""scripts/test, behind its set-up: chooses steps, runs them, reports. scripts/test --help has the options."""

import argparse
import os
import shutil
import signal
import sys
import time

import figures
import names
import report
from judge import tier_of
from schedule import CI, LOGS, run_all
from steps import SIZES, TIERS, BadSteps, choose, load, record, write_table

EXIT_FAILED, EXIT_USAGE, EXIT_ENDED = 1, 2, 130
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
USAGE = """scripts/test [--all | --deep] [--step TEXT]... [--tier S] [--list | --list-tests | --record] [--check]
                    [--no-setup] [--yes] [--help]"""


def arguments():
    words = argparse.ArgumentParser(prog="scripts/test", usage=USAGE, add_help=False, allow_abbrev=False)
    size, what = words.add_mutually_exclusive_group(), words.add_mutually_exclusive_group()
    size.add_argument("--all", dest="size", action="store_const", const="all", default="daily")
    size.add_argument("--deep", dest="size", action="store_const", const="deep")
    words.add_argument("--step", action="append", default=[])
    words.add_argument("--tier", choices=list(TIERS))
    for option in ("--list", "--list-tests", "--record"):
        what.add_argument(option, action="store_true")
    words.add_argument("--check", action="store_true")
    given = words.parse_args()
    if not all(map(str.strip, given.step)):
        words.error("argument --step: a text of the names of steps")
    return given


def chosen(given, listed):
    steps = load()
    found = choose(steps, given.size, given.tier, given.step)
    if found:
        return steps, found
    if given.tier not in {None, *(step.tier for step in steps)}:
        homes = [f"'{step.name}'" for step in steps if step.name in listed and has_tests_of(given.tier, step, listed[step.name])]
        raise BadSteps(f"tier {given.tier} has no step of its own: its tests are in {', '.join(homes) or 'none'}")
    larger = [size for size in SIZES if choose(steps, size, given.tier, given.step)]
    hint = f"; --{larger[0]} has some" if larger else "; --deep --list shows all"
    tier = f" of tier {given.tier}" if given.tier else ""
    texts = f" has {' or '.join(map(repr, given.step))} in its name" if given.step else ""
    raise BadSteps(f"no step{tier} of the {given.size} run{texts}{hint}")


def has_tests_of(tier, step, section):
    return step.parser == "nextest" and any(tier_of(name.split()[0], step.tier) == tier for name in section.names)


def show(steps):
    print(f"{'tier':<4} {'size':<5} {'budget':>7} {'last':>6} {'cores':>5}  step")
    for step in steps:
        needs = f"  (needs {', '.join(step.needs)})" if step.needs else ""
        print(f"{step.tier:<4} {step.size:<5} {step.budget_s:>5} s {step.took:>4} s {step.cores or 'all':>5}  {step.name}{needs}")


def show_tests(steps, listed):
    for step, section in listed.items():
        if step in {s.name for s in steps}:
            print("\n".join(f"{step}: {name}" for name in section.names))
    without = [step.name for step in steps if step.name not in listed]
    if without:
        print(f"steps whose tests have no names: {'; '.join(without)}", file=sys.stderr)


def environment():
    if CI:
        # What users are warned of is an error there: a table of costs of other sources, a CUDA compiler that is missing.
        os.environ.update(WARPBELL_STALE_COSTS="error", WARPBELL_REQUIRE_CUDA="1", CARGO_INCREMENTAL="0")
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)


def main():
    given = arguments()
    try:
        listed = names.load()
        steps, wanted = chosen(given, listed)
    except BadSteps as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    if given.check:
        return 0
    if given.list or given.list_tests:
        show(wanted) if given.list else show_tests(wanted, listed)
        return 0
    for line in names.astray(steps, listed):
        print(f"error: {line}", flush=True)
    if lack := report.lack_of_disk(given.size):
        print(lack, flush=True)
    environment()
    begin = time.monotonic()
    all_ran = run_all(wanted, report.line)
    if given.record:
        names.record(all_ran)
        record(all_ran)
        write_table()
        if not (given.step or given.tier) and all(ran.ok for ran in all_ran):
            figures.record_seconds(given.size, round(time.monotonic() - begin))
    wrong = names.compare(all_ran)
    set_up = int(os.environ.get("WARPBELL_SETUP_SECONDS", "0"))
    seconds = time.monotonic() - begin + set_up
    report.disk()
    report.trouble(all_ran, wrong)
    print()
    report.times(all_ran)
    print(f"{seconds:.0f} s in all, {set_up} s of it set-up; size: {given.size}")
    return 0 if report.table(all_ran, names.astray(steps, names.load())) else EXIT_FAILED


def end_once(*_):
    """The first signal ends the run. Another one would cut off the ending, and what ignores SIGTERM would stay."""
    for word in ENDING:
        signal.signal(word, lambda *_: None)
    raise KeyboardInterrupt


if __name__ == "__main__":
    # What a run has started is out of reach of who ends the run, in sessions of its own: all ways to end it are as Ctrl-C.
    for word in ENDING:
        if word == signal.SIGTERM or signal.getsignal(word) != signal.SIG_IGN:
            signal.signal(word, end_once)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nended before its end: what ran was ended, nothing was judged", file=sys.stderr)
        sys.exit(EXIT_ENDED)
