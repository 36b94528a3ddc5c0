#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the test scripts hide no failure: tests/run.sh counts every kind of failure, tests/marks.sh
        every mark that is not reached, tests/model/run.sh every WRONG line; .ci/run runs every
        required check, and tools/setup.sh reports every missing package.
Method: shell scripts that print the output that a test needs replace the test programs; a folder
        with symbolic links and fake apt-get and id programs is the only folder in PATH.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSING = "echo 'ok 1 - a'; echo 1..1"


class ScriptCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(path, mode)
        return path

    def copy(self, path):
        target = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), target)

    def call(self, script, *args, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
        return subprocess.run([os.path.join(self.root, script), *args], cwd=self.root,
                              env={**clean, **environment}, capture_output=True, text=True,
                              check=False)


class Run(ScriptCase):
    def run_tests(self, *args, programs, **environment):
        """Runs tests/run.sh on programs {name: shell text}; returns status and last line."""
        for name in "run.sh run_one.sh again.sh watch.sh stacks.sh stacks.py marks.sh".split():
            self.copy(f"tests/{name}")
        self.write("tests/timing_checks.list", "# why\ntest_a in_time\n")
        self.write("src/base/a.c", "")
        paths = [self.write(f"build/{name}", f"#!/bin/sh\n{text}\n", 0o755)
                 for name, text in programs.items()]
        self.write("build/tests.list", "".join(f"{path}\n" for path in paths))
        run = self.call("tests/run.sh", *args, **environment)
        self.output = run.stdout
        self.errors = run.stderr
        return run.returncode, run.stdout.splitlines()[-1] if run.stdout else ""

    def test_run_adds_up_passing_tests(self):
        two = "echo 'ok 1 - a'; echo 'ok 2 - b # SKIP why'; echo 1..2"
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING, "test_b": two}),
                         (0, "2 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: b # SKIP why\n", self.output)

    def test_run_shows_a_failed_test_and_fails(self):
        failing = "echo 'ok 1 - a'; echo 'not ok 2 - b'; echo '# why'; echo 1..2; exit 1"
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING, "test_b": failing}),
                         (1, "2 passed, 1 failed"))
        self.assertIn("not ok 2 - b\n# why\n", self.output)

    def test_run_fails_if_a_program_ends_without_a_plan(self):
        crash = "echo 'ok 1 - a'; kill -9 $$"
        self.assertEqual(self.run_tests("build", programs={"test_a": crash}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a ended without a plan, status 137", self.output)

    def test_run_fails_if_a_program_runs_too_few_tests(self):
        one_of_two = "echo 'ok 1 - a'; echo 1..2"
        self.assertEqual(self.run_tests("build", programs={"test_a": one_of_two}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a planned 2 tests and ran 1", self.output)

    def test_run_fails_on_a_status_that_no_test_explains(self):
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING + "; exit 23"}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a ended with status 23", self.output)

    def test_run_fails_if_programs_did_not_run(self):
        status, last = self.run_tests("build", programs={
            "test_a": PASSING, "test_b": "kill -9 $PPID", "test_c": PASSING, "test_d": PASSING})
        self.assertEqual(status, 1)
        self.assertNotIn(" 0 failed", last)
        self.assertIn("not ok - test_b was not run to its end\n", self.output)

    def test_run_fails_if_a_program_does_not_exist(self):
        self.assertEqual(self.run_tests("build", programs={"test_a": "exec ./none"})[0], 1)

    def test_run_without_tests_fails(self):
        self.assertEqual(self.run_tests("build", programs={}), (2, ""))
        self.assertRegex(self.errors, r"^tests/run.sh: no test program of \S+ matches\n$")
        self.assertEqual(self.run_tests("build", "other", programs={"test_a": PASSING}), (2, ""))
        self.assertRegex(self.errors, r"^tests/run.sh: no test program of \S+ matches other\n$")
        skipped = "echo 'ok 1 - a # SKIP why'; echo 1..1"
        self.assertEqual(self.run_tests("build", programs={"test_a": skipped}),
                         (1, "0 passed, 0 failed, 1 skipped"))

    def test_run_with_bad_arguments_prints_the_usage(self):
        for args in [(), ("--all",), ("--help",), ("--al", "build")]:
            self.assertEqual(self.run_tests(*args, programs={"test_a": PASSING}), (2, ""))
            self.assertRegex(self.errors, "^usage: tests/run.sh ")

    def test_run_names_select_programs(self):
        programs = {"test_a": PASSING, "test_b": PASSING, "test_ab": PASSING}
        self.assertEqual(self.run_tests("build", "_b", programs=programs)[1],
                         "1 passed, 0 failed")

    def test_run_wraps_programs_in_the_given_command(self):
        wrap = self.write("wrap", "#!/bin/sh\necho '# wrapped'\nexec \"$@\"\n", 0o755)
        self.run_tests("build", programs={"test_a": PASSING}, WEFT_TEST_WRAP=wrap)
        with open(os.path.join(self.root, "build/logs/test_a.tap"), encoding="utf-8") as log:
            self.assertIn("# wrapped", log.read())

    def failing_first(self, how, times=1):
        """A program that executes `how` in its first runs and passes then; it counts its runs."""
        return (f"echo >>count; if [ $(wc -l <count) -le {times} ]; then {how}; fi; {PASSING}")

    def runs(self):
        """The number of runs of that program."""
        path = os.path.join(self.root, "count")
        with open(path, encoding="utf-8") as stream:
            count = len(stream.readlines())
        os.remove(path)
        return count

    def log(self, name):
        with open(os.path.join(self.root, "build/logs", name), encoding="utf-8") as stream:
            return stream.read()

    LATE = "echo 'not ok 1 - in_time'; echo '# a.c:7: failed: late: x < 1'; " \
        "echo '# exit status 1'; echo 1..1; exit 1"

    def test_late_check_in_the_list_is_repeated(self):
        once = self.failing_first(self.LATE).replace(PASSING, "echo \"ok 1 - ${1#=}\"; echo 1..1")
        self.assertEqual(self.run_tests("build", programs={"test_a": once, "test_b": PASSING}),
                         (0, "2 passed, 0 failed"))
        self.assertEqual(self.runs(), 3)
        self.assertIn("unsteady: test_a in_time was late once and passed 2 of 2 further runs\n",
                      self.output)
        self.assertIn("ok 1 - in_time # unsteady\n", self.log("test_a.tap"))
        self.assertIn("\nnot ok 1 - in_time\n", "\n" + self.log("test_a.first"))

    def test_late_check_must_pass_two_of_three_runs(self):
        for late, runs, status in [("2", 4, 0), ("3", 4, 0), ("4", 4, 0), ("23", 3, 1),
                                   ("24", 4, 1), ("34", 4, 1)]:
            text = f"echo >>count; case 1{late} in *$(wc -l <count)*) {self.LATE} ;; esac; " \
                "echo 'ok 1 - in_time'; echo 1..1"
            with self.subTest(late=late):
                end, _ = self.run_tests("build", programs={"test_a": text})
                passed_early = late in ("4", )  # two further runs have passed by then
                self.assertEqual((end, self.runs()), (status, runs - passed_early))
                self.assertIn("unsteady: test_a in_time was late", self.output)

    def test_late_check_outside_the_list_is_not_repeated(self):
        late = self.failing_first(self.LATE)
        self.assertEqual(self.run_tests("build", programs={"test_b": late}),
                         (1, "0 passed, 1 failed"))
        self.assertEqual(self.runs(), 1)
        other = self.LATE.replace("in_time", "other")
        self.assertEqual(self.run_tests("build", programs={"test_a": self.failing_first(other)}),
                         (1, "0 passed, 1 failed"))
        self.assertEqual(self.runs(), 1)

    def test_listed_test_is_not_repeated_after_another_failure(self):
        for how in [self.LATE.replace("late: ", ""),
                    self.LATE.replace("# exit status 1", "# ended by signal 6"),
                    self.LATE.replace("# exit status 1", "# hung: still running"),
                    self.LATE.replace("# exit status 1", "# exit status 66"),
                    "echo 'WARNING: ThreadSanitizer: race'; " + self.LATE,
                    "echo '==7==ERROR: LeakSanitizer'; " + self.LATE,
                    "echo 'x.c:1: runtime error: shift'; " + self.LATE,
                    "kill -9 $$"]:
            with self.subTest(how=how):
                status, _ = self.run_tests("build", programs={"test_a": self.failing_first(how)})
                self.assertEqual((status, self.runs()), (1, 1))

    def test_late_check_fails_if_a_further_run_fails_otherwise(self):
        for wrong in ["kill -9 $$", self.LATE.replace("late: ", "")]:
            text = f"echo >>count; [ $(wc -l <count) != 2 ] || {{ {wrong}; }}; {self.LATE}"
            with self.subTest(wrong=wrong):
                status, _ = self.run_tests("build", programs={"test_a": text})
                self.assertEqual((status, self.runs()), (1, 2))

    SLOW = "echo 'ok 1 - slowly # SLOW'; echo 1..1; exit"

    def test_slow_test_passes_if_its_second_run_is_in_time(self):
        slow = self.failing_first(self.SLOW)
        self.assertEqual(self.run_tests("build", programs={"test_a": slow}),
                         (0, "1 passed, 0 failed"))
        self.assertEqual(self.runs(), 2)
        self.assertIn("slow: test_a slowly exceeded its limit once, and not when it ran alone\n",
                      self.output)

    def test_slow_test_fails_if_its_second_run_is_slow(self):
        self.assertEqual(
            self.run_tests("build", programs={"test_a": self.failing_first(self.SLOW, times=2)}),
            (1, "0 passed, 1 failed"))
        self.assertEqual(self.runs(), 2)
        self.assertIn("not ok 1 - slowly # slow; second run: slow\n", self.log("test_a.tap"))

    def check_stacks(self, log, function):
        if shutil.which("gdb"):
            self.assertRegex(log, rf"\n# #\d+ .*{function}")
        else:
            self.assertIn("# gdb is not installed", log)

    def test_hung_program_is_killed_and_its_stacks_are_logged(self):
        pids = os.path.join(self.root, "pids")
        program = f"echo 'ok 1 - a'; sleep 100 & echo $! >{pids}; wait"
        self.assertEqual(self.run_tests("build", programs={"test_a": program}, WEFT_TEST_LIMIT="1"),
                         (1, "1 passed, 1 failed"))
        log = self.log("test_a.tap")
        self.assertIn("# SLOW: test_a has run for more than 1 s; its stacks and tasks:\n", log)
        self.check_stacks(log, "nanosleep")
        self.assertIn("# hung: test_a still running after 3 times 1 s\n", log)
        self.assertIn("not ok - test_a ended without a plan, status 137\n", log)
        with open(pids, encoding="utf-8") as stream:  # watch.sh has killed the child too
            self.assertFalse(os.path.exists(f"/proc/{stream.read().strip()}/exe"))

    def test_slow_program_fails_only_if_its_second_run_is_slow(self):
        for times, end in [(1, (0, "1 passed, 0 failed")), (2, (1, "1 passed, 1 failed"))]:
            program = self.failing_first("sleep 2.2", times)
            with self.subTest(times=times):
                self.assertEqual(self.run_tests("build", programs={"test_a": program},
                                                WEFT_TEST_LIMIT="1"), end)
                self.assertEqual(self.runs(), 2)
                self.assertIn("slow: test_a exceeded its limit; second run: "
                              + ("ok" if times == 1 else "slow"), self.output)

    def test_timing_checks_list_matches_the_sources(self):
        def read(path):
            with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
                return stream.read()
        sources = dict(re.findall(r"^weft_(?:io_)?(?:test|stress)\((\w+) (\S+\.c)",
                                  read("cmake/tests.cmake"), re.MULTILINE))
        listed = [line.split() for line in read("tests/timing_checks.list").splitlines()
                  if not line.startswith("#")]
        for program, test in listed:
            self.assertRegex(read(sources[program]), rf"TAP_TEST(_LIMIT)?\({test}[,)]")
        having = {program for program, path in sources.items()
                  if program != "test_tap" and "CHECK_TIME(" in read(path)}
        self.assertEqual({program for program, _ in listed}, having)

    def test_log_says_if_gdb_is_not_installed(self):
        path = self.write_path("sh cat rm cp mv mkdir grep sed awk xargs basename dirname tail sort"
                               " head cut tr readlink sleep timeout")
        self.run_tests("build", programs={"test_a": "sleep 2.2; " + PASSING}, PATH=path,
                       WEFT_TEST_LIMIT="1")
        log = self.log("test_a.first")
        self.assertIn("# gdb is not installed (tools/setup.sh stacks): no stacks and no tasks", log)
        self.assertRegex(log, r"\n# thread \d+: .*sleep")

    def test_scripts_run_only_with_all(self):
        programs = {"test_a": PASSING, "test_b.py": "print('ok 1 - b\\n1..1')"}
        self.assertEqual(self.run_tests("build", programs=programs)[1], "1 passed, 0 failed")
        self.assertEqual(self.run_tests("--all", "build", programs=programs)[1],
                         "2 passed, 0 failed, 1 skipped")

    def test_stress_runs_its_own_list_and_prints_the_logs(self):
        self.write("build/stress_a", "#!/bin/sh\necho '# 7 items'; echo 'ok 1 - s'; echo 1..1\n",
                   0o755)
        self.write("build/stress.list", os.path.join(self.root, "build/stress_a") + "\n")
        self.assertEqual(self.run_tests("--stress", "build", programs={"test_a": "exit 1"}),
                         (0, "1 passed, 0 failed"))
        self.assertIn("# 7 items\nok 1 - s\n", self.output)

    def test_scripts_are_skipped_without_python(self):
        path = self.write_path("sh cat rm cp mkdir grep sed awk xargs basename dirname tail sort "
                               "head timeout")
        self.assertEqual(self.run_tests("--all", "build", "test_b", programs={"test_b.py": "x"},
                                        PATH=path),
                         (1, "0 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.output.splitlines()[:2], [
            "skipped: test_b.py", "skipped: test_b.py # SKIP python3 is not installed"])

    def test_marks_are_kept_from_the_last_full_run(self):
        reaching = 'echo a.one >>"$WEFT_TEST_MARKS"; ' + PASSING
        marks = os.path.join(self.root, "build/marks")
        self.run_tests("build", programs={"test_a": reaching})
        self.run_tests("--all", "build", "test_a", programs={"test_a": reaching})
        self.assertFalse(os.path.exists(marks))
        self.run_tests("--all", "build", programs={"test_a": reaching})
        self.run_tests("build", programs={"test_a": PASSING})
        with open(marks, encoding="utf-8") as stream:
            self.assertEqual(stream.read(), "a.one\n")
        self.run_tests("--all", "build", programs={"test_a": PASSING})
        self.assertEqual(os.path.getsize(marks), 0)

    def write_path(self, names):
        folder = os.path.join(self.root, "bin")
        os.makedirs(folder)
        for name in names.split():
            os.symlink(shutil.which(name), os.path.join(folder, name))
        return folder


class Marks(ScriptCase):
    SOURCE = '/*\n * WF_REACHED("comment.none")\n */\n    WF_REACHED("a.one");\n' \
             '        WF_REACHED("a.two");\n'

    def marks(self, reached):
        self.copy("tests/marks.sh")
        self.write("src/base/a.c", self.SOURCE)
        self.write("build/marks", reached)
        run = self.call("tests/marks.sh", "build")
        return run.returncode, run.stdout

    def test_marks_pass_if_all_are_reached(self):
        status, text = self.marks("a.one\na.two\na.one\n")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"^ok 1 - .*\n")
        self.assertRegex(text, r"# +2  a.one  src/base/a.c:4\n# +1  a.two  src/base/a.c:5\n1..1\n$")

    def test_marks_fail_if_one_is_not_reached(self):
        status, text = self.marks("a.two\n")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"^not ok 1 - .*\n# 1 of 2 marks were not reached\n# +0  a.one ")

    def test_marks_fail_if_none_is_reached(self):
        self.assertEqual(self.marks("")[0], 1)

    def test_marks_without_a_full_run_are_an_error(self):
        self.copy("tests/marks.sh")
        self.write("src/base/a.c", self.SOURCE)
        run = self.call("tests/marks.sh", "build")
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (2, "", "no full run yet: run `make test` first\n"))


class Model(ScriptCase):
    """Shell scripts replace the model programs; their arguments select what they print."""
    ROW = "echo '%s: a   view   7 runs +   0 cut    0.01 s   0.10 M/s  exhausted'"
    PROGRAM = """case "$*" in
*--mutants*) echo "  killed: x  (in a, view)"; echo "%s: 1 mutants, 1 killed, 0 crashed, """ \
        """0 equivalent, 0 wrong" ;;
*--compare*) echo "a: 7 runs" ;;
*--seed*) echo deadlock ;;
*--search*) echo "seed 3, execution 9" ;;
*) """ + ROW + """ ;;
esac"""

    def model(self, faults="print('faults: 2 of 2 found')", **broken):
        """Returns status and lines of tests/model/run.sh; `broken` replaces programs."""
        self.copy("tests/model/run.sh")
        self.copy("tests/model/verdicts.txt")
        self.write("tests/model/faults.py", f"#!/usr/bin/env python3\n{faults}\n", 0o755)
        names = "litmus ring lock deque mpsc sleep".split()
        programs = {name: self.PROGRAM % (name, name) for name in names}
        programs["verdicts"] = "cat tests/model/verdicts.txt"
        programs.update(broken)
        paths = [self.write(f"build/model_{name}", f"#!/bin/sh\n{text}\n", 0o755)
                 for name, text in programs.items()]
        self.write("build/model.list", "".join(f"{path}\n" for path in paths[:len(names)]))
        run = self.call("tests/model/run.sh", "build")
        return run.returncode, run.stdout.splitlines()

    def check_wrong(self, text, **broken):
        status, lines = self.model(**broken)
        self.assertEqual(status, 1, lines)
        self.assertRegex(lines[-1], "^model: FAILED, [1-9][0-9]* wrong; ")
        repeated = lines[lines.index("---- wrong") + 1:-1]
        self.assertTrue(any(text in line for line in repeated), repeated)
        self.assertTrue(all("WRONG" in line for line in repeated), repeated)
        return lines

    def test_model_passes_if_no_line_is_wrong(self):
        status, lines = self.model()
        self.assertEqual(status, 0)
        self.assertEqual(lines[0], "litmus: 1 verdicts as in x86 and C11")
        self.assertNotIn("killed: x", "\n".join(lines))
        self.assertRegex(lines[-1], "^model: ok, 6 searches: 6 exhausted, 0 fail as they must; "
                                    "42 runs, 700 a second; 6 mutants: 6 killed, 0 crashed, "
                                    "0 equivalent; 2 of 2 faults found; [0-9]+ s$")
        with open(os.path.join(self.root, "build/mutants.model_ring.out"), encoding="utf-8") as log:
            self.assertIn("  killed: x  (in a, view)\n", log.read())

    def test_model_fails_on_a_wrong_row(self):
        self.check_wrong("b <-- WRONG", ring="echo 'b <-- WRONG'; exit 1")
        lines = self.check_wrong("c <-- WRONG", litmus="echo 'c <-- WRONG'; echo d; exit 1")
        self.assertIn("d", lines)  # the script prints all rows then

    def test_model_fails_if_a_program_crashes(self):
        self.check_wrong("status 139 of ", lock="exec sh -c 'kill -11 $$'")
        self.check_wrong("status 127 of ", deque="exec ./none")

    def test_model_fails_if_a_mutant_survives(self):
        self.check_wrong("survives: x", ring='echo "  WRONG: survives: x"; exit 1')

    def test_model_fails_if_a_fault_is_not_found(self):
        self.check_wrong("status 1 of tests/model/faults.py", faults="import sys; sys.exit(1)")

    def test_model_fails_if_the_reduction_loses_runs(self):
        lines = self.check_wrong("not as many", mpsc="""case "$*" in
*--compare*) echo "a: 7 runs  <-- WRONG: not as many"; exit 1 ;; esac""")
        self.assertFalse(any("same runs" in line for line in lines))

    def test_model_fails_if_a_seed_does_not_repeat(self):
        for sleep in ['case "$*" in *--seed*) ;; *--search*) echo "seed 3," ;; esac',
                      'case "$*" in *--seed*) echo deadlock ;; esac']:
            lines = self.check_wrong("does not repeat", sleep=sleep)
            self.assertFalse(any("repeats" in line for line in lines))

    def test_model_fails_if_verdicts_differ(self):
        lines = self.check_wrong("verdicts on mutants", verdicts="echo none")
        self.assertFalse(any("distinguished" in line for line in lines))


class Ci(ScriptCase):
    """Runs .ci/run with a Makefile whose targets the test defines."""
    REQUIRED = "test tidy format-check asan tsan model".split()
    OPTIONAL = ["clang hostile fuzz promises".split(), "aarch64 stress".split(),
                "lint valgrind cov wakeups".split()]

    def ci(self, rotation=0, budget=4200, setup="exit 0", **targets):
        """Returns status and lines of .ci/run; `targets` replaces the recipes of targets."""
        self.copy(".ci/run")
        self.write("tools/setup.sh", f"#!/bin/sh\n{setup}\n", 0o755)
        recipes = {name: "true" for name in self.REQUIRED + sum(self.OPTIONAL, [])}
        recipes["test"] = "echo '7 passed, 0 failed'"
        recipes.update({name.replace("_", "-"): text for name, text in targets.items()})
        self.write("Makefile", "".join(f"{name}:\n\t@{text}\n" for name, text in recipes.items())
                   + f".PHONY: {' '.join(recipes)}\n")
        run = self.call(".ci/run", CI_ROTATION=str(rotation), BUDGET_S=str(budget))
        self.ran = re.findall(r"^==== make (\S+)$", run.stdout, re.MULTILINE)
        return run.returncode, run.stdout.splitlines()

    def test_ci_runs_all_checks_and_ends_with_the_summary(self):
        status, lines = self.ci()
        self.assertEqual((status, lines[-1]), (0, "7 passed, 0 failed"))
        self.assertEqual(self.ran, self.REQUIRED + sum(self.OPTIONAL, []))

    def test_ci_groups_rotate(self):
        for rotation in range(6):
            self.assertEqual(self.ci(rotation)[0], 0)
            first = self.OPTIONAL[rotation % 3]
            self.assertEqual(self.ran[6:6 + len(first)], first)
            self.assertEqual(sorted(self.ran[6:]), sorted(sum(self.OPTIONAL, [])))

    def test_ci_rotation_is_the_number_of_commits(self):
        self.ci()
        def git(*args):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
                           cwd=self.root, check=True, capture_output=True)
        git("init")
        for commits in range(1, 4):
            git("commit", "--allow-empty", "-m", "a")
            run = self.call(".ci/run")
            self.assertIn(f"==== optional checks: group {commits % 3 + 1} of 3 first", run.stdout)

    def test_ci_fails_if_any_check_fails(self):
        for name in self.REQUIRED + sum(self.OPTIONAL, []):
            with self.subTest(name=name):
                status, lines = self.ci(**{name: "exit 3"})
                self.assertEqual((status, lines[-1]), (1, f"FAILED: make {name}, status 2"))
        self.assertEqual(self.ci(setup="exit 1"), (1, ["FAILED: tools/setup.sh"]))

    def test_ci_fails_if_a_required_check_is_cut_off(self):
        for name in (self.REQUIRED[0], self.REQUIRED[-1]):
            with self.subTest(name=name):
                status, lines = self.ci(budget=3, **{name: "sleep 100"})
                self.assertEqual((status, lines[-1]), (
                    1, f"FAILED: make {name} was cut off: 3 s are exhausted"))

    def test_ci_fails_if_a_required_check_does_not_run(self):
        status, lines = self.ci(budget=1, setup="sleep 1.1")
        self.assertEqual((status, lines[-1]), (
            1, "FAILED: make test did not run: 1 s are exhausted"))
        status, lines = self.ci(budget=0)
        self.assertEqual((status, self.ran), (1, []))

    def test_ci_runs_optional_checks_that_fit_the_budget(self):
        status, lines = self.ci(rotation=1, budget=440)
        self.assertEqual((status, lines[-1]), (0, "7 passed, 0 failed"))
        self.assertEqual(self.ran[6:7], ["aarch64"])
        status, lines = self.ci(rotation=1, budget=400)
        self.assertNotIn("aarch64", self.ran)
        self.assertIn("==== not run, no time: aarch64", lines)
        self.assertIn("stress", self.ran)

    def test_ci_names_an_optional_check_that_is_cut_off(self):
        status, lines = self.ci(budget=10, promises="sleep 100")
        self.assertEqual((status, lines[-1]), (0, "7 passed, 0 failed"))
        self.assertIn("==== not run, no time: promises (cut off)", lines)

    def test_ci_names_unsteady_and_slow_tests_at_the_end(self):
        status, lines = self.ci(asan="echo 'unsteady: a'", cov="echo 'slow: b'")
        self.assertEqual(status, 0)
        self.assertEqual([line for line in lines[-6:] if line[:2] in ("un", "sl")],
                         ["unsteady: a", "slow: b"])

    def test_ci_fails_if_a_test_is_skipped_without_its_tool(self):
        status, lines = self.ci(test="echo 'skipped: a # SKIP wrk is not installed'")
        self.assertEqual((status, lines[-1]), (
            1, "FAILED: make test skipped tests because a tool is not installed: "
               "skipped: a # SKIP wrk is not installed"))
        skipped = "echo 'skipped: a # SKIP there is no IPv6'; echo '7 passed, 0 failed, 1 skipped'"
        self.assertEqual(self.ci(test=skipped)[0], 0)

    def test_ci_fails_without_a_summary_of_the_tests(self):
        self.assertEqual(self.ci(test="true")[0], 1)


class Setup(ScriptCase):
    """Runs tools/setup.sh with `have` installed; a fake apt-get logs its arguments."""

    def setup_machine(self, have, user, apt="exit 0"):
        self.copy("tools/setup.sh")
        folder = os.path.join(self.root, "bin")
        os.makedirs(folder)
        for name in "sh dirname sort tr ls mkdir grep tail".split():
            os.symlink(shutil.which(name), os.path.join(folder, name))
        for name in have.split():
            self.write(f"bin/{name}", "#!/bin/sh\n", 0o755)
        self.write("bin/id", f"#!/bin/sh\necho {user}\n", 0o755)
        self.apt_log = os.path.join(self.root, "apt.log")
        if apt:
            self.write("bin/apt-get", f'#!/bin/sh\necho "$@" >>{self.apt_log}\n{apt}\n', 0o755)
        return folder

    def setup(self, *args, path):
        run = self.call("tools/setup.sh", *args, PATH=path)
        return run.returncode, run.stdout + run.stderr

    def test_setup_prints_nothing_if_nothing_is_missing(self):
        path = self.setup_machine("python3 clang-format-14", user=1000)
        self.assertEqual(self.setup("tidy", "format", path=path), (0, ""))

    def test_setup_prints_the_command_for_a_user(self):
        path = self.setup_machine("sudo", user=1000)
        self.assertEqual(self.setup("tidy", "test", "format", path=path), (
            1, "missing: clang-format-14 python3\n"
               "type:    sudo apt-get install --no-install-recommends clang-format-14 python3\n"))
        self.assertFalse(os.path.exists(self.apt_log))

    def test_setup_prints_the_command_for_a_user_without_sudo(self):
        path = self.setup_machine("", user=1000)
        self.assertEqual(self.setup("tidy", path=path), (
            1, "missing: python3\n"
               "type:    apt-get install --no-install-recommends python3      (as root)\n"))

    def test_setup_installs_nothing_if_told_so(self):
        path = self.setup_machine("", user=0)
        told = (1, "missing: python3\ntype:    apt-get install --no-install-recommends python3\n")
        self.assertEqual(self.setup("--check", "tidy", path=path), told)
        run = self.call("tools/setup.sh", "tidy", PATH=path, WEFT_NO_INSTALL="1")
        self.assertEqual((run.returncode, run.stdout + run.stderr), told)
        self.assertFalse(os.path.exists(self.apt_log))

    def test_setup_accepts_the_compiler_that_CC_names(self):
        path = self.setup_machine("cmake clang", user=1000)
        self.assertIn("missing: gcc", self.setup("build", path=path)[1])
        run = self.call("tools/setup.sh", "build", PATH=path, CC="clang")
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))

    def test_setup_prints_the_command_for_root_without_apt(self):
        path = self.setup_machine("", user=0, apt=None)
        self.assertEqual(self.setup("tidy", path=path), (
            1, "missing: python3\ntype:    apt-get install --no-install-recommends python3\n"))

    def test_setup_installs_packages_as_root(self):
        path = self.setup_machine("python3", user=0)
        self.assertEqual(self.setup("tidy", "format", path=path),
                         (0, "installing clang-format-14\n"))
        with open(self.apt_log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "-q update\n-q -y install --no-install-recommends "
                                           "clang-format-14\n")

    def test_setup_fails_if_the_installation_fails(self):
        path = self.setup_machine("", user=0, apt="echo no route; exit 100")
        status, text = self.setup("tidy", path=path)
        self.assertEqual(status, 1)
        self.assertIn("no route\n", text)

    def test_setup_try_succeeds_and_installs_only_once(self):
        path = self.setup_machine("", user=0, apt="exit 100")
        self.assertEqual(self.setup("--try", "test", path=path)[0], 0)
        self.assertEqual(self.setup("--try", "test", path=path), (
            0, "missing: python3\ntype:    apt-get install --no-install-recommends python3\n"
               "optional: without it the tests of the tools are skipped\n"))
        with open(self.apt_log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "-q update\n")

    def test_setup_try_succeeds_without_gdb(self):
        path = self.setup_machine("sudo", user=1000)
        self.assertEqual(self.setup("--try", "stacks", path=path), (
            0, "missing: gdb\n"
               "type:    sudo apt-get install --no-install-recommends gdb\n"
               "optional: without it the log of a test that hangs shows no stacks\n"))
        self.assertEqual(self.setup("all", path=path)[0], 1)

    def test_setup_unknown_target_is_an_error(self):
        path = self.setup_machine("", user=1000)
        self.assertEqual(self.setup("tydi", path=path),
                         (2, "tools/setup.sh: unknown target tydi\n"))


if __name__ == "__main__":
    tap.main()
