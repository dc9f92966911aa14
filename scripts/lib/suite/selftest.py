"""The runner's own tests. Ends with the line `N passed, N failed`."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from unittest import mock

import figures
import judge
import names
import report
import schedule
import steps
from figures import Figure
from judge import FAILED, PASSED, SKIPPED, Result
from names import Section
from steps import BadSteps, Step

SUITE = pathlib.Path(__file__).resolve().parent

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


class Disks(unittest.TestCase):
    def test_a_disk_too_small_is_warned_of_and_what_is_built_counts(self):
        free = mock.Mock(free=3 << 30)
        for there, word in ((1, "3 GiB free, 1 GiB in target"), (40, "")):
            with mock.patch("shutil.disk_usage", return_value=free), mock.patch("report.used", return_value=there << 30):
                self.assertIn(word, report.lack_of_disk("all"))
                self.assertEqual(bool(word), bool(report.lack_of_disk("all")))


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
        self.assertEqual(chosen("all", texts=["AL"]), ["build", "all"])
        self.assertEqual(chosen("daily", texts=["nothing"]), [])
        rows[2].needs = ["no-such-program"]
        self.assertEqual(chosen("all", texts=["al"]), ["all"], "what cannot run needs no build")

    def test_values_of_another_kind_are_refused_by_name(self):
        good = '[[step]]\nname = "a"\ntier = "U"\nsize = "all"\ncommand = ["true"]\n'
        for line in ("budget_s = -20", "cores = -1", "cores = true", "passed = -3", "last_s = -4", "only = 1", 'budget_s = "20"', 'needs = "git"', 'only = "no"', "env = { A = 1 }", "after = [1]", 'env = "a"'):
            with self.assertRaisesRegex(BadSteps, f"step 'a': {line.split()[0]} = "):
                steps.load(f"{good}{line}\n")
        with self.assertRaisesRegex(BadSteps, "command = 'true': texts"):
            steps.load(good.replace('["true"]', '"true"'))

    def test_a_file_that_cannot_be_read_is_refused_in_a_line(self):
        row = '[[step]]\nname = "a"\ntier = "U"\nsize = "all"\ncommand = ["true"]\n'
        for text, said in (("", "no step"), ("step = 1", "no step"), ("[[step]", "line 1"), (row + 'name = "b"\n', "Cannot overwrite"),
                           (f"more = 1\n{row}", "unknown key 'more'"), (row.replace('tier = "U"\n', ""), "step 'a': no key 'tier'")):
            with self.assertRaisesRegex(BadSteps, f"^tests/steps.toml: .*{said}"):
                steps.load(text)
        with mock.patch.object(steps, "FILE", steps.ROOT / "tests/none.toml"), self.assertRaisesRegex(BadSteps, "^tests/none.toml: No such file"):
            steps.load()

    def test_rows_that_make_no_sense_are_refused_by_name(self):
        good = '[[step]]\nname = "a"\ntier = "U"\nsize = "all"\ncommand = ["true"]\n'
        self.assertEqual(len(steps.load(good)), 1)
        for change, said in ((("U", "X"), "tier = X"), (('"all"', '"most"'), "size = most"), (("command", "comand"), "unknown key 'comand': one of name,"),
                             (('["true"]', "[]"), "command"), (("size", 'after = ["b"]\nsize'), "after = b: no such step")):
            with self.assertRaisesRegex(BadSteps, said):
                steps.load(good.replace(*change))
        with self.assertRaisesRegex(BadSteps, "after = b: it stands later"):
            steps.load(good + 'after = ["b"]\n' + good.replace('"a"', '"b"'))
        with self.assertRaisesRegex(BadSteps, "two steps"):
            steps.load(good + good)

    def test_the_file_is_sound_and_every_command_is_there(self):
        for row in steps.load():
            program = row.command[1] if row.command[0] == "nice" else row.command[0]
            if "/" in program:
                self.assertTrue((steps.ROOT / program).is_file(), f"{row.name}: {program}")


class InFolder(unittest.TestCase):
    """With a folder of its own, and runs of steps whose logs are there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.put(schedule, LOGS=self.folder, cores=lambda: 2, CI=False)

    def put(self, module, **values):
        """Gives a module other values until the test ends."""
        patch = mock.patch.multiple(module, **values)
        patch.start()
        self.addCleanup(patch.stop)

    def bash(self, name, text, **more):
        """A step that runs a line of bash in the folder."""
        return Step(name, "S", "daily", ["bash", "-c", f"cd {self.folder}; {text}"], **more)

    def run_all(self, rows):
        ended, lock = [], threading.Lock()

        def told(ran):
            with lock:
                ended.append(ran.step.name)

        return {ran.step.name: ran for ran in schedule.run_all(rows, told)}, ended


class Running(InFolder):
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

    def test_what_comes_after_a_skipped_step_is_skipped_and_what_is_behind_it_runs(self):
        lacking = step("lacking", needs=["no-such-program"])
        ran, ended = self.run_all([lacking, step("after", after=["lacking"]), step("later", after=["after"]), step("behind", behind=["lacking"]),
                                   self.bash("broken", "sleep 0.2; false"), step("next", behind=["broken"])])
        self.assertEqual(ran["after"].skipped, "after 'lacking', which was skipped")
        self.assertEqual(ran["later"].skipped, "after 'after', which was skipped")
        self.assertTrue(ran["after"].ok)
        self.assertEqual([ran[name].result.counts[PASSED] for name in ("behind", "next")], [1, 1])
        self.assertLess(ended.index("broken"), ended.index("next"))

    def test_exit_code_4_is_believed_with_a_line_that_says_what_is_missing(self):
        ran, _ = self.run_all([self.bash("said", "echo cannot run: no kernel; echo more; exit 4"), self.bash("unsaid", "echo error: gone; exit 4")])
        self.assertEqual((ran["said"].skipped, ran["said"].ok), ("no kernel", True))
        self.assertEqual((ran["unsaid"].skipped, ran["unsaid"].ok), ("", False))

    def test_a_runner_that_raises_fails_the_step_and_ends(self):
        self.put(schedule, judge=mock.Mock(side_effect=ValueError("breaks off")))
        ran, ended = self.run_all([step("one"), step("two")])
        self.assertEqual((ran["one"].ok, ran["two"].ok, sorted(ended)), (False, False, ["one", "two"]))
        self.assertIn("ValueError: breaks off", ran["one"].log.read_text())

    def test_a_listener_that_raises_fails_the_step_and_ends(self):
        ran = schedule.run_all([step("one")], mock.Mock(side_effect=OSError("no space")))
        self.assertFalse(ran[0].ok)
        self.assertIn("no space", ran[0].log.read_text())

    def test_one_step_is_told_at_a_time(self):
        at_once, inside = [], []

        def told(ran):
            inside.append(ran)
            time.sleep(0.05)
            at_once.append(len(inside))
            inside.clear()

        schedule.run_all([step("one"), step("two")], told)
        self.assertEqual(at_once, [1, 1])

    def test_unsteady_is_what_passed_the_second_time(self):
        self.put(schedule, CI=True)
        text = "echo a: 1 passed, 1 failed; test -e again && echo b: 1 passed, 0 failed || echo b: 1 passed, 1 failed; touch again; exit 1"
        plain = "test -e once && echo 1 passed, 0 failed || { touch once; false; }"
        ran, _ = self.run_all([self.bash("named", text, parser="programs"), self.bash("plain", plain, parser="plain"),
                               self.bash("twice", "echo 1 passed, 1 failed", parser="plain")])
        self.assertEqual(ran["named"].result.unsteady, ["program b"])
        self.assertEqual((ran["plain"].result.unsteady, ran["plain"].ok), (["plain"], True))
        self.assertEqual((ran["twice"].result.unsteady, ran["twice"].ok), ([], False))

    def test_of_what_passed_the_second_time_the_first_log_is_told(self):
        self.put(schedule, CI=True)
        script = "test -e once && { echo 2 passed, 0 failed; exit; }; touch once; echo 'ok      a'; echo 'FAILED  b'; echo '    why'; echo 'ok      c'; exit 1"
        ran, _ = self.run_all([self.bash("twice", script, parser="plain")])
        with contextlib.redirect_stdout(io.StringIO()) as told:
            report.trouble(ran.values(), {})
        self.assertEqual(told.getvalue().splitlines()[2:], ["FAILED  b", "    why"])

    def test_a_report_of_nextest_lies_in_the_workspace_wherever_cargo_builds(self):
        said = subprocess.run([sys.executable, "-c", "import schedule, steps, pathlib; print(schedule.report_of(steps.load()[0], pathlib.Path('01-a.log')))"], text=True,
                              cwd=SUITE, env=dict(os.environ, CARGO_TARGET_DIR="/elsewhere"), capture_output=True, check=True).stdout
        self.assertEqual(said.strip(), str(steps.ROOT / "target/nextest/suite/01-a.xml"))

    def test_steps_of_nights_have_hours_for_a_test(self):
        self.assertEqual([schedule.profile_of(Step("a", "S", size, ["-E", "b"])) for size in steps.SIZES], ["suite", "suite", "deep"])


class Ending(InFolder):
    def test_signals_begin_nothing_more_and_end_what_runs(self):
        for first, sent in (":", [signal.SIGINT]), (":", [signal.SIGTERM]), ('trap \\"\\" TERM', [signal.SIGTERM, signal.SIGTERM]):
            self.end_with(first, sent)

    def end_with(self, first, sent):
        """Sends signals to a run whose step does `first` and waits: it and what it started end."""
        inner = f"cd {self.folder}; {first}; echo \\$\\$ >new; mv new pid; exec sleep 300"
        row = '[[step]]\nname = "{}"\ntier = "S"\nsize = "daily"\ncores = 0\ncommand = ["bash", "-c", \'{}\']\n'
        # `timeout` gives what it runs a group of its own.
        file = self.folder / "steps.toml"
        file.write_text(row.format("long", f'timeout 300 bash -c "{inner}"; true') + row.format("next", f"touch {self.folder}/begun"))
        program = f"import children, pathlib, runpy, schedule, steps; children.PATIENCE_S = 1; steps.FILE = pathlib.Path('{file}'); " \
                  f"schedule.LOGS = pathlib.Path('{self.folder}/logs'); runpy.run_path('__main__.py', run_name='__main__')"
        # Whoever runs these tests in the background ignores SIGINT, and so would the runner.
        runner = subprocess.Popen([sys.executable, "-c", program], cwd=SUITE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        pid = self.folder / "pid"
        while not pid.exists() and runner.poll() is None:
            time.sleep(0.01)
        for word in sent:
            runner.send_signal(word)
            time.sleep(0.2)
        self.assertEqual(runner.wait(60), 130)
        self.assertFalse((self.folder / "begun").exists())
        stat = pathlib.Path("/proc", pid.read_text().strip(), "stat")
        self.assertFalse(stat.exists() and ") Z " not in stat.read_text(), "what `timeout` started is still there")
        pid.unlink()

    def test_wrong_options_are_told_before_set_up(self):
        for options in (["--nonsense"], ["--step", "no such step"], ["--step", ""], ["--tier", "V"], ["--all", "--deep"], ["--list", "--record"]):
            done = subprocess.run([steps.ROOT / "scripts/test", *options], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options)


    def test_scripts_beside_the_runner_refuse_options_with_code_2(self):
        for words in (["coverage", "--only", "x", "--update"], ["coverage", "--only", "x", "--report"], ["bench-compare", "no-such-commit"],
                      ["bench-compare", "HEAD", "--runtime", "3x"]):
            done = subprocess.run([steps.ROOT / "scripts" / words[0], *words[1:]], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)


class Names(InFolder):
    SCENES = ["guest four reads", "guest own binds", "guest own lists"]

    def guest(self):
        """A step of the guest whose scene `own` was skipped."""
        ran = schedule.Ran(step("guest"), Result())
        ran.result.add("guest four reads", PASSED)
        ran.result.add("guest own scene_own", SKIPPED)
        return ran

    def test_names_that_are_lost_or_new_are_told(self):
        ran = schedule.Ran(step("one"), Result())
        ran.result.add("kept", PASSED)
        ran.result.add("new", PASSED)
        found = names.differences(ran, ["kept", "lost"])
        self.assertEqual(found, ["listed below 'one' and did not run: lost", "not in tests/list: new"])

    def test_scenes_without_a_kernel_lose_no_names_but_in_continuous_integration(self):
        self.assertEqual(names.differences(self.guest(), self.SCENES), [])
        self.assertEqual(len(names.differences(self.guest(), [*self.SCENES, "guest four writes"])), 1)
        self.put(schedule, CI=True)
        self.assertEqual(len(names.differences(self.guest(), self.SCENES)), 3)

    def test_a_machine_of_the_guest_without_a_kernel_is_skipped_and_fails_if_nobody_says_so(self):
        script = "source scripts/lib/common.sh; source scripts/lib/guest/test.sh; boot_machine() {{ {}; return 4; }}; run_machine '' four"
        for said, code in (("echo cannot run: no kernel", 4), ("echo error: gone", 1)):
            done = subprocess.run(["bash", "-c", script.format(said), "scripts/lib/x"], cwd=steps.ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, "test scene_four ... ignored, no kernel" in done.stdout), (code, code == 4), done.stderr)

    def test_a_section_without_a_step_or_of_another_size_is_told(self):
        rows = [step("here"), step("moved"), step("alone", only=True)]
        listed = {name: Section("daily", []) for name in ("here", "moved", "alone", "gone")}
        rows[1].size = "deep"
        self.assertEqual(names.astray(rows, listed), [
            "section 'moved (daily)' of tests/list: the step is 'deep' now",
            "section 'alone (daily)' of tests/list: the step is 'daily alone' now",
            "section 'gone (daily)' of tests/list: no such step"])
        self.assertEqual(names.astray(steps.load(), names.load()), [])

    def test_a_line_that_is_in_no_section_is_refused(self):
        self.put(names, FOLDER=self.folder)
        for text, line in (("stray\n== a (daily)\n", "1: stray"), ("# of it\n== a (daily)\nb\n  t\n== c\n", "5: == c")):
            (self.folder / "list.txt").write_text(text)
            with self.assertRaisesRegex(BadSteps, f"list.txt:{line}: belongs below a line == STEP"):
                names.load()

    def test_a_run_fails_with_a_section_astray_and_where_nothing_passed(self):
        passed, skipped = schedule.Ran(step("one"), Result(Counter({PASSED: 1}))), schedule.Ran(step("two"), Result(Counter({SKIPPED: 1})))
        for ran, astray, well, end in ((passed, [], True, "\n\n1 passed, 0 failed, 0 skipped\n"),
                                       (passed, ["lost"], False, "\nerror: lost\n1 passed, 1 failed, 0 skipped\n"),
                                       (skipped, [], False, "\nerror: nothing passed\n0 passed, 0 failed, 1 skipped\n")):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(report.table([ran], astray), well)
            self.assertTrue(said.getvalue().endswith(end), said.getvalue())

    def test_more_than_was_recorded_is_told(self):
        ran = schedule.Ran(step("plain", parser="plain", passed=10), Result(Counter({PASSED: 11})))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            report.times([ran])
        self.assertIn("more than was recorded: plain: 11 passed, 10: ", said.getvalue())

    def test_a_list_is_printed_once(self):
        done = subprocess.run([steps.ROOT / "scripts/test", "--list-tests", "--step", "HOUSE"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", "steps whose tests have no names: house rules\n"))

    def test_the_list_is_written_of_steps_that_passed_alone(self):
        self.put(names, FOLDER=self.folder / "list", MOST_LINES=6)
        names.FOLDER.mkdir()
        (names.FOLDER / "list.txt").write_text(f"== guest (daily)\n{names.by_program(self.SCENES)}\n== bad (all)\none\n  kept\n\n== gone (daily)\none\n  lost\n")
        bad = schedule.Ran(step("bad"), Result())
        bad.result.add("new", FAILED)
        names.record([self.guest(), bad])
        self.assertEqual({name: (one.size, one.names) for name, one in names.load().items()},
                         {"bad": ("all", ["one kept"]), "guest": ("daily", self.SCENES), "gone": ("daily", ["one lost"])})
        self.assertEqual([file.name for file in sorted(names.FOLDER.iterdir())], ["01.txt", "02.txt", "03.txt"])

    def test_steps_without_names_may_not_pass_fewer(self):
        ran = schedule.Ran(step("plain", parser="plain", passed=10), Result())
        ran.result.counts.update({PASSED: 8, SKIPPED: 2})
        self.assertEqual(names.too_few(ran), [])
        self.put(schedule, CI=True)
        self.assertEqual(names.too_few(ran), ["8 passed, and 10 when that was last recorded in tests/steps.toml"])

    def test_steps_are_recorded_where_they_passed(self):
        self.put(steps, FILE=self.folder / "steps.toml")
        row = '[[step]]\nname = "{}"\ntier = "U"\nsize = "all"\ncommand = ["true"]\nparser = "plain"\n{}\n# Of the next.\n'
        steps.FILE.write_text(row.format("one", "last_s = 7\n") + row.format("two", "") + row.format("bad", ""))
        rows = steps.load()
        passed = [schedule.Ran(one, Result(Counter({PASSED: 3})), seconds=0.2) for one in rows[:2]]
        steps.record([*passed, schedule.Ran(rows[2], Result(Counter({FAILED: 1})))])
        self.assertEqual([(one.last_s, one.passed) for one in steps.load()], [(0, 3), (0, 3), (None, 0)])
        self.assertEqual(rows[0].passed, 3)
        self.assertEqual([one.took for one in steps.load()], ["<1", "<1", "-"])


class Filters(unittest.TestCase):
    def test_tests_that_are_left_to_another_step_are_out_of_the_filter(self):
        row = '[[step]]\nname = "{}"\ntier = "U"\nsize = "daily"\ncommand = ["-E", "{}"]\nparser = "nextest"\n'
        text = row.format("all", "not binary(b)") + 'leaves = ["some"]\n' + row.format("some", "binary(a)")
        self.assertEqual(steps.load(text)[0].command, ["-E", "(not binary(b)) and not (binary(a))"])
        with self.assertRaises(steps.BadSteps):
            steps.load(row.format("all", "x") + 'leaves = ["none"]\n')

    def test_every_step_whose_tests_have_names_lists_them(self):
        listed = names.load()
        named = [one.name for one in steps.load() if one.parser in ("nextest", "libtest", "programs")]
        self.assertEqual([name for name in named if name not in listed or not listed[name].names], [])


class Page(unittest.TestCase):
    def test_the_page_of_tests_shows_the_file(self):
        shown = steps.PAGE.read_text().split(steps.BEGIN)[1].split(steps.END)[0].strip().splitlines()
        self.assertEqual(shown, steps.table(steps.load()).strip().splitlines())


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


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
