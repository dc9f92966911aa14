"""The runner's own tests. Ends with the line `N passed, N failed`."""

import pathlib
import sys
import tempfile
import threading
import unittest

import figures
import judge
import names
import schedule
import steps
from figures import Figure
from judge import FAILED, PASSED, SKIPPED, Result
from steps import BadSteps, Step

JUNIT = """<testsuites><testsuite name="warpbell-softctl::io">
<testcase name="a" classname="warpbell-softctl::io"/>
<testcase name="b" classname="warpbell-tests::vfio_user"><failure/></testcase>
<testcase name="c" classname="warpbell-tests::queue"><system-out>x
skipped: c_of_it: no nvcc; run scripts/setup</system-out></testcase>
<testcase name="d" classname="warpbell-tests::guest"><system-out>skipped: only in the guest: scripts/guest</system-out></testcase>
<testcase name="e" classname="warpbell-tests::queue"><flakyFailure/></testcase>
</testsuite></testsuites>"""

LIBTEST = """     Running scene vfio (tests/tests/guest/guest-0)
test vfio::reads ... ok
test vfio::writes ... FAILED
test vfio::slow ... ignored, takes an hour
test vfio::other ... ok
---- vfio::other stdout ----
skipped: no IOMMU; boot with one
     Running unittests src/lib.rs (target/debug/deps/queue-0123456789abcdef)
test reads ... ok
   Doc-tests warpbell
test src/lib.rs - (line 3) ... ok
"""


def step(name, **more):
    return Step(name=name, tier="S", size="daily", command=["true"], **more)


class Judging(unittest.TestCase):
    def test_reports_of_nextest_have_tiers_skips_and_retries(self):
        result = Result()
        judge.nextest(result, JUNIT, "S")
        self.assertEqual(dict(result.counts), {PASSED: 2, FAILED: 1, SKIPPED: 1})
        self.assertEqual(result.tiers["U"][PASSED], 1)
        self.assertEqual(result.tiers["V"][FAILED], 1)
        self.assertEqual(result.reasons, ["no nvcc"])
        self.assertEqual(result.unsteady, ["warpbell-tests::queue e"])
        self.assertNotIn("warpbell-tests::guest d", result.tests)

    def test_programs_of_libtest_are_told_apart(self):
        result = Result()
        judge.libtest(result, LIBTEST, "Q")
        self.assertEqual(result.tests, {
            "guest vfio vfio::reads": PASSED, "guest vfio vfio::writes": FAILED, "guest vfio vfio::slow": SKIPPED,
            "guest vfio vfio::other": SKIPPED, "queue reads": PASSED, "warpbell doc src/lib.rs - (line 3)": PASSED})
        self.assertEqual(result.reasons, ["takes an hour", "no IOMMU"])

    def test_the_last_plain_line_counts(self):
        result = Result()
        judge.plain(result, "1 passed, 1 failed\n7 passed, 0 failed, 2 skipped\n")
        self.assertEqual(result.counts, {PASSED: 7, FAILED: 0, SKIPPED: 2})

    def test_programs_have_a_line_each(self):
        result = Result()
        judge.programs(result, "one: 40 passed, 0 failed\ntwo: 1 passed, 2 failed\nSKIPPED: three: no clang\nFAILED: two\n")
        self.assertEqual(result.tests, {"program one": PASSED, "program two": FAILED})
        self.assertEqual(result.counts[SKIPPED], 1)

    def test_what_ran_nothing_has_failed_and_a_crash_is_one_failure(self):
        with tempfile.TemporaryFile("w+") as log:
            nothing, crashed = Result(), Result()
            self.assertEqual(nothing.settle(0, log), 1)
            crashed.counts[PASSED] = 3
            self.assertEqual(crashed.settle(101, log), 101)
            self.assertEqual((nothing.counts[FAILED], crashed.counts[FAILED]), (1, 1))


class Choosing(unittest.TestCase):
    def test_a_larger_size_has_what_a_smaller_one_has_but_for_its_own(self):
        rows = [step("build"), step("smoke", only=True), step("all", after=["build"])]
        rows[2].size = "all"
        chosen = lambda size, **more: [s.name for s in steps.choose(rows, size, **more)]
        self.assertEqual(chosen("daily"), ["build", "smoke"])
        self.assertEqual(chosen("deep"), ["build", "all"])
        self.assertEqual(chosen("all", texts=["al"]), ["build", "all"])
        self.assertEqual(chosen("daily", texts=["nothing"]), [])

    def test_rows_that_make_no_sense_are_refused_by_name(self):
        good = '[[step]]\nname = "a"\ntier = "U"\nsize = "all"\ncommand = ["true"]\n'
        self.assertEqual(len(steps.load(good)), 1)
        for change, said in ((("U", "X"), "tier = X"), (('"all"', '"most"'), "size = most"), (("command", "comand"), "comand"),
                             (('["true"]', "[]"), "command"), (("size", 'after = ["b"]\nsize'), "after = b")):
            with self.assertRaisesRegex(BadSteps, said):
                steps.load(good.replace(*change))
        with self.assertRaisesRegex(BadSteps, "two steps"):
            steps.load(good + good)

    def test_the_file_is_sound_and_every_command_is_there(self):
        for row in steps.load():
            program = row.command[1] if row.command[0] == "nice" else row.command[0]
            if "/" in program:
                self.assertTrue((steps.ROOT / program).is_file(), f"{row.name}: {program}")


class Running(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.old = schedule.LOGS, schedule.cores
        schedule.LOGS, schedule.cores = pathlib.Path(self.folder.name), lambda: 2
        self.addCleanup(lambda: setattr(schedule, "LOGS", self.old[0]) or setattr(schedule, "cores", self.old[1]))

    def run_all(self, rows):
        ended, lock = [], threading.Lock()

        def told(ran):
            with lock:
                ended.append(ran.step.name)

        return {ran.step.name: ran for ran in schedule.run_all(rows, told)}, ended

    def test_steps_wait_for_what_they_need_and_fall_with_it(self):
        slow = Step("slow", "S", "daily", ["sleep", "0.2"])
        wide = Step("wide", "S", "daily", ["true"], cores=0)
        broken = Step("broken", "S", "daily", ["false"])
        after = Step("after", "S", "daily", ["true"], after=["slow"])
        fallen = Step("fallen", "S", "daily", ["true"], after=["broken"])
        lacking = Step("lacking", "G", "daily", ["true"], needs=["no-such-program"])
        ran, ended = self.run_all([slow, wide, broken, after, fallen, lacking])
        self.assertLess(ended.index("slow"), ended.index("after"))
        self.assertLess(ended.index("slow"), ended.index("wide"), "it wants every core")
        self.assertEqual([name for name, one in ran.items() if not one.ok], ["broken", "fallen"])
        self.assertEqual(ran["fallen"].skipped, "'broken' failed")
        self.assertEqual(ran["lacking"].result.counts[SKIPPED], 1)

    def test_steps_of_nights_have_hours_for_a_test(self):
        self.assertEqual([schedule.profile_of(Step("a", "S", size, ["-E", "b"])) for size in steps.SIZES], ["suite", "suite", "deep"])

    def test_names_that_are_lost_or_new_are_told(self):
        ran = schedule.Ran(step("one"), Result())
        ran.result.add("kept", PASSED)
        ran.result.add("new", PASSED)
        found = names.differences(ran, ["kept", "lost"])
        self.assertEqual(found, ["listed below 'one' and did not run: lost", "not in tests/list.txt: new"])

    def test_tests_that_are_left_to_another_step_are_out_of_the_filter(self):
        row = '[[step]]\nname = "{}"\ntier = "U"\nsize = "daily"\ncommand = ["-E", "{}"]\nparser = "nextest"\n'
        text = row.format("all", "not binary(b)") + 'leaves = ["some"]\n' + row.format("some", "binary(a)")
        self.assertEqual(steps.load(text)[0].command, ["-E", "(not binary(b)) and not (binary(a))"])
        with self.assertRaises(steps.BadSteps):
            steps.load(row.format("all", "x") + 'leaves = ["none"]\n')

    def test_every_step_whose_tests_have_names_lists_them(self):
        listed = names.load()
        named = [one.name for one in steps.load() if one.parser in ("nextest", "libtest", "programs")]
        self.assertEqual([name for name in named if not listed.get(name)], [])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed != 0


class Page(unittest.TestCase):
    def test_the_page_of_tests_shows_the_file(self):
        shown = steps.PAGE.read_text().split(steps.BEGIN)[1].split(steps.END)[0].strip().splitlines()
        written = steps.table(steps.load(), "a day").strip().splitlines()
        self.assertEqual(shown[1:], written[1:], "behind the date")


class Figures(unittest.TestCase):
    def figure(self, value, kind="virtual", better="more"):
        return {"a": Figure("a", value, "M IOPS", kind, better, "run")}

    def test_a_fall_of_more_than_three_percent_fails_and_a_smaller_one_is_told(self):
        self.assertEqual([len(part) for part in figures.judge(self.figure(1.0), self.figure(0.96))], [1, 0])
        self.assertEqual([len(part) for part in figures.judge(self.figure(1.0), self.figure(0.98))], [0, 1])
        self.assertEqual(figures.judge(self.figure(1.0), self.figure(1.0)), ([], []))

    def test_more_of_a_cost_is_a_fall_and_a_rise_of_speed_is_none(self):
        worse = figures.judge(self.figure(100, "static", "less"), self.figure(104, "static", "less"))
        self.assertEqual(len(worse[0]), 1)
        self.assertEqual(figures.judge(self.figure(0, "static", "less"), self.figure(1, "static", "less"))[0][0][:2], "a:")
        self.assertEqual(len(figures.judge(self.figure(1.0), self.figure(2.0))[0]), 0)

    def test_the_clock_and_sizes_fail_nothing(self):
        for kind in ("real", "size", "seconds"):
            self.assertEqual(figures.judge(self.figure(1.0, kind), self.figure(0.5, kind))[0], [])

    def test_what_is_not_listed_or_not_measured_fails(self):
        self.assertEqual(len(figures.judge({}, self.figure(1.0))[0]), 1)
        self.assertEqual(len(figures.judge(self.figure(1.0), {})[0]), 1)

    def test_a_fall_is_written_with_its_reason_alone(self):
        after, unexplained = figures.update(self.figure(1.0), self.figure(0.9), "")
        self.assertEqual((after["a"].value, unexplained), (1.0, ["a"]))
        after, unexplained = figures.update(self.figure(1.0), self.figure(0.9), "one more fence")
        self.assertEqual((after["a"].value, after["a"].why, unexplained), (0.9, "one more fence", []))

    def test_a_figure_of_no_commit_is_written_anew_and_keeps_its_reason(self):
        known = self.figure(1.0)
        known["a"].commit, known["a"].why = "abc-dirty", "one more fence"
        after = figures.update(known, self.figure(1.0), "")[0]["a"]
        self.assertEqual((after.why, after.commit != "abc-dirty"), ("one more fence", True))
        known["a"].commit = "abc"
        self.assertEqual(figures.update(known, self.figure(1.0), "")[0]["a"].commit, "abc")

    def test_the_file_is_read_as_it_is_written(self):
        file, figures.FILE = figures.FILE, pathlib.Path(tempfile.mkdtemp()) / "figures.toml"
        try:
            known = {"a": Figure("a", 0.5, "us", "virtual", "less", 'say "x"', "abc", "2026-11-24", "a\\b")}
            figures.save(known)
            self.assertEqual(figures.load(), known)
        finally:
            figures.FILE = file


if __name__ == "__main__":
    sys.exit(main())
