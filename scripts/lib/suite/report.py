"""What a person reads: a line for each step, and tables at the end."""

import re
import shutil
import subprocess
from collections import Counter

from judge import FAILED, PASSED, SKIPPED
from steps import ROOT, TIERS, first_log

# Slower than the last figure by more than this: said at the end.
SLOWER, SLOWER_S = 1.3, 10
LAST_LINES, TROUBLE_LINES = 60, 80


def counts(ran):
    c = ran.result.counts
    return f"{c[PASSED]} passed, {c[FAILED]} failed, {c[SKIPPED]} skipped"


def line(ran):
    """A step that ended, and the end of its log if it failed."""
    step = ran.step
    word = "FAILED" if not ran.ok else "skipped" if ran.skipped else "ok"
    tail = ran.skipped or counts(ran)
    print(f"{step.tier}  {step.name:<52} {word:<7} {ran.seconds:5.0f} s  {tail}", flush=True)
    if not ran.ok and ran.log:
        print(f"--- end of {ran.log.relative_to(ROOT)} ---")
        print("\n".join(ran.log.read_text(errors="replace").splitlines()[-LAST_LINES:]))
        print("---", flush=True)


def trouble(all_ran, wrong_names):
    """What failed, and what passed only when it ran again: all in one place, as readers may have only the end."""
    for ran in all_ran:
        if not ran.ok:
            print(f"\n--- {ran.step.name} FAILED{': ' + ran.skipped if ran.skipped else ''}")
            print("\n".join(what_failed(ran.log)[:TROUBLE_LINES] + wrong_names.get(ran.step.name, [])[:TROUBLE_LINES]))
        for name in ran.result.unsteady:
            print(f"\n--- UNSTEADY: {name} ({ran.step.name}) failed and passed when it ran again: a defect to be mended")
        if ran.result.unsteady and ran.log and first_log(ran.log).exists():
            print("\n".join(what_failed(first_log(ran.log))[:TROUBLE_LINES]))


def what_failed(log):
    """The lines of a log that say which tests failed, and why: what an item of a script's list has said is indented."""
    found, left, of_item = [], 0, False
    for text in log.read_text(errors="replace").splitlines() if log else []:
        of_item = text.startswith(("FAILED", "    ") if of_item else "FAILED")
        if of_item or re.match(r"^test .*FAILED$|^error|.*FAILED  |^ +(FAIL|TIMEOUT|SIG[A-Z]+) \[", text):
            found.append(text)
        elif "panicked at " in text:
            left = 6
        if left:
            left -= 1
            found.append(text)
    return list(dict.fromkeys(found))


def times(all_ran):
    """Steps beyond their budget, and those that became slower than the file's last figures."""
    over = [r for r in all_ran if r.seconds > r.step.budget_s]
    slower = [r for r in all_ran if r.ok and r.step.last_s and r.seconds > r.step.last_s * SLOWER and r.seconds > r.step.last_s + SLOWER_S]
    for title, rows, key in (("beyond its budget", over, "budget_s"), ("slower than the last figure", slower, "last_s")):
        for ran in rows:
            print(f"{title}: {ran.step.name}: {ran.seconds:.0f} s, {getattr(ran.step, key)} s")
    for ran in all_ran:
        if ran.step.passed and ran.result.counts[PASSED] > ran.step.passed:
            print(f"more than was recorded: {ran.step.name}: {ran.result.counts[PASSED]} passed, {ran.step.passed}: scripts/test --record writes it")
    if not over and not slower:
        print("every step within its budget, none slower than its last figure")


def table(all_ran, astray=()):
    """Tests by tier; the last line is the one that programs read. Returns whether all is well. `astray`: lines, each a failure."""
    tiers = {tier: [Counter(), []] for tier in TIERS}
    for ran in all_ran:
        of_tests = ran.result.tiers or {ran.step.tier: ran.result.counts}
        for tier, found in of_tests.items():
            tiers[tier][0].update(found)
        # What a step counts beyond its tests: a compiler error, a name that is lost.
        rest = ran.result.counts - sum(of_tests.values(), Counter())
        tiers[ran.step.tier][0].update(rest)
        tiers[ran.step.tier][1].extend(r for r in ran.result.reasons if r not in tiers[ran.step.tier][1])
    print(f"\n{'tier':<4} {'what':<50} {'passed':>7} {'failed':>7} {'skipped':>8}  why")
    total = Counter()
    for tier, (found, reasons) in tiers.items():
        total.update(found)
        print(f"{tier:<4} {TIERS[tier]:<50} {found[PASSED]:>7} {found[FAILED]:>7} {found[SKIPPED]:>8}  {'; '.join(reasons)}")
    print()
    total[FAILED] += len(astray)
    for error in [*astray, *([] if total[PASSED] else ["nothing passed"])]:
        print(f"error: {error}")
    print(f"{total[PASSED]} passed, {total[FAILED]} failed, {total[SKIPPED]} skipped")
    return not total[FAILED] and total[PASSED] > 0


# What `target` grows to in a run of each size, in GiB: at least. Measured on 2026-11-25: 8 for the one build, kernels and figures,
# 15 more for sanitizers, fuzz targets and gpu-check; incremental builds took another 11 after a day. A --deep run was not measured.
GROWS_TO = {"daily": 8, "all": 23, "deep": 23}


def used():
    """Bytes in `target`."""
    done = subprocess.run(["du", "-s", "-B1", "target"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout.split("\t")[0] or 0)


def lack_of_disk(size):
    """A warning where the disk is too small for what a run of this size builds; else nothing."""
    free, there = shutil.disk_usage(ROOT).free >> 30, used() >> 30
    if there + free >= GROWS_TO[size]:
        return ""
    return f"warning: {free} GiB free, {there} GiB in target, which grows to {GROWS_TO[size]} GiB at least: steps may fail for want of disk"


def disk():
    print(f"disk: {used() / 2**30:.1f} GiB in target, {shutil.disk_usage(ROOT).free >> 30} GiB free")
