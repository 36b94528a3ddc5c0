#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the scripts that judge do not lie: tests/run.sh counts every way to fail, tests/marks.sh
        every mark, tests/model/run.sh everything that is wrong, and tools/setup.sh says what is
        missing.
Method: test programs are shell scripts that print what a case needs; the machine is a folder of
        links and small stand-ins for apt-get and id, and nothing else on the path.
"""
import os
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
        """Runs tests/run.sh on programs {name: shell text}; gives status and last line."""
        self.copy("tests/run.sh")
        self.copy("tests/judge.sh")
        self.copy("tests/marks.sh")
        self.write("src/base/a.c", "")
        paths = [self.write(f"build/{name}", f"#!/bin/sh\n{text}\n", 0o755)
                 for name, text in programs.items()]
        self.write("build/tests.list", "".join(f"{path}\n" for path in paths))
        run = self.call("tests/run.sh", *args, **environment)
        self.output = run.stdout
        self.errors = run.stderr
        return run.returncode, run.stdout.splitlines()[-1] if run.stdout else ""

    def test_passing_tests_are_added_up(self):
        two = "echo 'ok 1 - a'; echo 'ok 2 - b # SKIP why'; echo 1..2"
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING, "test_b": two}),
                         (0, "2 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: b # SKIP why\n", self.output)

    def test_a_failed_test_fails_the_run_and_is_shown(self):
        failing = "echo 'ok 1 - a'; echo 'not ok 2 - b'; echo '# why'; echo 1..2; exit 1"
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING, "test_b": failing}),
                         (1, "2 passed, 1 failed"))
        self.assertIn("not ok 2 - b\n# why\n", self.output)

    def test_a_program_that_ends_early_has_failed(self):
        crash = "echo 'ok 1 - a'; kill -9 $$"
        self.assertEqual(self.run_tests("build", programs={"test_a": crash}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a ended without a plan, status 137", self.output)

    def test_a_program_that_ran_too_few_tests_has_failed(self):
        one_of_two = "echo 'ok 1 - a'; echo 1..2"
        self.assertEqual(self.run_tests("build", programs={"test_a": one_of_two}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a planned 2 tests and ran 1", self.output)

    def test_a_status_that_no_test_explains_is_a_failure(self):
        self.assertEqual(self.run_tests("build", programs={"test_a": PASSING + "; exit 23"}),
                         (1, "1 passed, 1 failed"))
        self.assertIn("test_a ended with status 23", self.output)

    def test_what_a_killed_shell_left_out_has_failed(self):
        status, last = self.run_tests("build", programs={
            "test_a": PASSING, "test_b": "kill -9 $PPID", "test_c": PASSING, "test_d": PASSING})
        self.assertEqual(status, 1)
        self.assertNotIn(" 0 failed", last)
        self.assertIn("not ok - test_b was not run to its end\n", self.output)

    def test_a_program_that_is_not_there_has_failed(self):
        self.assertEqual(self.run_tests("build", programs={"test_a": "exec ./none"})[0], 1)

    def test_no_test_at_all_is_a_failure(self):
        self.assertEqual(self.run_tests("build", programs={}), (2, ""))
        self.assertRegex(self.errors, r"^tests/run.sh: no test program of \S+ matches\n$")
        self.assertEqual(self.run_tests("build", "other", programs={"test_a": PASSING}), (2, ""))
        self.assertRegex(self.errors, r"^tests/run.sh: no test program of \S+ matches other\n$")
        skipped = "echo 'ok 1 - a # SKIP why'; echo 1..1"
        self.assertEqual(self.run_tests("build", programs={"test_a": skipped}),
                         (1, "0 passed, 0 failed, 1 skipped"))

    def test_bad_usage(self):
        for args in [(), ("--all",), ("--help",), ("--al", "build")]:
            self.assertEqual(self.run_tests(*args, programs={"test_a": PASSING}), (2, ""))
            self.assertRegex(self.errors, "^usage: tests/run.sh ")

    def test_names_choose_programs(self):
        programs = {"test_a": PASSING, "test_b": PASSING, "test_ab": PASSING}
        self.assertEqual(self.run_tests("build", "_b", programs=programs)[1],
                         "1 passed, 0 failed")

    def test_programs_run_under_the_given_command(self):
        wrap = self.write("wrap", "#!/bin/sh\necho '# wrapped'\nexec \"$@\"\n", 0o755)
        self.run_tests("build", programs={"test_a": PASSING}, WEFT_TEST_WRAP=wrap)
        with open(os.path.join(self.root, "build/logs/test_a.tap"), encoding="utf-8") as log:
            self.assertIn("# wrapped", log.read())

    def failing_first(self, how, times=1):
        """A program that fails so, at its first runs, and passes after that."""
        return (f"echo >>count; if [ $(wc -l <count) -le {times} ]; then {how}; fi; {PASSING}")

    def test_what_fails_once_is_unsteady_if_it_is_tried_again(self):
        once = self.failing_first("echo 'not ok 1 - a'; echo '# why'; echo 1..1; exit 1")
        self.assertEqual(self.run_tests("build", programs={"test_a": once}),
                         (1, "0 passed, 1 failed"))
        os.remove(os.path.join(self.root, "count"))
        self.assertEqual(self.run_tests("build", programs={"test_a": once, "test_b": PASSING},
                                        WEFT_TEST_AGAIN="2"), (0, "2 passed, 0 failed"))
        self.assertIn("unsteady: test_a failed once, and then passed 2 times", self.output)
        with open(os.path.join(self.root, "build/logs/test_a.unsteady"), encoding="utf-8") as log:
            self.assertIn("# why", log.read())

    def test_what_fails_again_has_failed(self):
        often = "echo >>count; [ $(wc -l <count) != 2 ] || { " + PASSING + "; exit; }; " \
            "echo 'not ok 1 - a'; echo 1..1; exit 1"
        self.assertEqual(self.run_tests("build", programs={"test_a": often}, WEFT_TEST_AGAIN="3"),
                         (1, "0 passed, 1 failed"))
        self.assertNotIn("unsteady", self.output)

    def test_a_death_and_a_word_of_a_sanitizer_are_never_tried_again(self):
        for how in ["echo 'not ok 1 - a'; echo '# ended by signal 6'; echo 1..1; exit 1",
                    "echo 'not ok 1 - a'; echo 'WARNING: ThreadSanitizer: race'; echo 1..1; exit 1",
                    "echo 'not ok 1 - a'; echo 'x.c:1: runtime error: shift'; echo 1..1; exit 1",
                    "kill -9 $$"]:
            status, _ = self.run_tests("build", programs={"test_a": self.failing_first(how)},
                                       WEFT_TEST_AGAIN="2")
            self.assertEqual(status, 1, how)
            os.remove(os.path.join(self.root, "count"))

    def test_scripts_run_with_all_only(self):
        programs = {"test_a": PASSING, "test_b.py": "print('ok 1 - b\\n1..1')"}
        self.assertEqual(self.run_tests("build", programs=programs)[1], "1 passed, 0 failed")
        self.assertEqual(self.run_tests("--all", "build", programs=programs)[1],
                         "2 passed, 0 failed, 1 skipped")

    def test_stress_runs_its_own_list_and_shows_what_it_says(self):
        self.write("build/stress_a", "#!/bin/sh\necho '# 7 items'; echo 'ok 1 - s'; echo 1..1\n",
                   0o755)
        self.write("build/stress.list", os.path.join(self.root, "build/stress_a") + "\n")
        self.assertEqual(self.run_tests("--stress", "build", programs={"test_a": "exit 1"}),
                         (0, "1 passed, 0 failed"))
        self.assertIn("# 7 items\nok 1 - s\n", self.output)

    def test_scripts_are_skipped_where_python_is_missing(self):
        path = self.write_path("sh cat rm cp mkdir grep sed awk xargs basename dirname tail sort")
        self.assertEqual(self.run_tests("--all", "build", "test_b", programs={"test_b.py": "x"},
                                        PATH=path),
                         (1, "0 passed, 0 failed, 1 skipped"))
        self.assertEqual(self.output.splitlines()[:2], [
            "skipped: test_b.py", "skipped: test_b.py # SKIP python3 is not installed"])

    def test_marks_are_those_of_the_last_full_run(self):
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

    def test_all_reached(self):
        status, text = self.marks("a.one\na.two\na.one\n")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"^ok 1 - .*\n")
        self.assertRegex(text, r"# +2  a.one  src/base/a.c:4\n# +1  a.two  src/base/a.c:5\n1..1\n$")

    def test_one_missed(self):
        status, text = self.marks("a.two\n")
        self.assertEqual(status, 1)
        self.assertRegex(text, r"^not ok 1 - .*\n# 1 of 2 marks were not reached\n# +0  a.one ")

    def test_a_run_that_reached_none(self):
        self.assertEqual(self.marks("")[0], 1)

    def test_no_run(self):
        self.copy("tests/marks.sh")
        self.write("src/base/a.c", self.SOURCE)
        run = self.call("tests/marks.sh", "build")
        self.assertEqual((run.returncode, run.stdout, run.stderr),
                         (2, "", "no full run yet: `make test` makes one\n"))


class Model(ScriptCase):
    """The model programs are shell scripts; each answers as its arguments ask."""
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
        """Gives the status and lines of tests/model/run.sh; `broken` replaces programs."""
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

    def test_all_is_well(self):
        status, lines = self.model()
        self.assertEqual(status, 0)
        self.assertEqual(lines[0], "litmus: 1 verdicts as in x86 and C11")
        self.assertNotIn("killed: x", "\n".join(lines))
        self.assertRegex(lines[-1], "^model: ok, 6 searches: 6 exhausted, 0 fail as they must; "
                                    "42 runs, 700 a second; 6 mutants: 6 killed, 0 crashed, "
                                    "0 equivalent; 2 of 2 faults found; [0-9]+ s$")
        with open(os.path.join(self.root, "build/mutants.model_ring.out"), encoding="utf-8") as log:
            self.assertIn("  killed: x  (in a, view)\n", log.read())

    def test_a_row_that_is_wrong(self):
        self.check_wrong("b <-- WRONG", ring="echo 'b <-- WRONG'; exit 1")
        lines = self.check_wrong("c <-- WRONG", litmus="echo 'c <-- WRONG'; echo d; exit 1")
        self.assertIn("d", lines)  # all rows then

    def test_a_program_that_crashes(self):
        self.check_wrong("status 139 of ", lock="exec sh -c 'kill -11 $$'")
        self.check_wrong("status 127 of ", deque="exec ./none")

    def test_a_mutant_that_survives(self):
        self.check_wrong("survives: x", ring='echo "  WRONG: survives: x"; exit 1')

    def test_a_fault_that_is_not_found(self):
        self.check_wrong("status 1 of tests/model/faults.py", faults="import sys; sys.exit(1)")

    def test_a_reduction_that_loses_runs(self):
        lines = self.check_wrong("not as many", mpsc="""case "$*" in
*--compare*) echo "a: 7 runs  <-- WRONG: not as many"; exit 1 ;; esac""")
        self.assertFalse(any("same runs" in line for line in lines))

    def test_a_seed_that_does_not_repeat(self):
        for sleep in ['case "$*" in *--seed*) ;; *--search*) echo "seed 3," ;; esac',
                      'case "$*" in *--seed*) echo deadlock ;; esac']:
            lines = self.check_wrong("does not repeat", sleep=sleep)
            self.assertFalse(any("repeats" in line for line in lines))

    def test_verdicts_that_are_confused(self):
        lines = self.check_wrong("verdicts on mutants", verdicts="echo none")
        self.assertFalse(any("told apart" in line for line in lines))


class Setup(ScriptCase):
    """A machine where `have` is installed; apt-get is a stand-in that notes its arguments."""

    def setup_machine(self, have, user, apt="exit 0"):
        self.copy("tools/setup.sh")
        folder = os.path.join(self.root, "bin")
        os.makedirs(folder)
        for name in "sh dirname sort tr ls mkdir grep tail".split():
            os.symlink(shutil.which(name), os.path.join(folder, name))
        for name in have.split():
            self.write(f"bin/{name}", "#!/bin/sh\n", 0o755)
        self.write("bin/id", f"#!/bin/sh\necho {user}\n", 0o755)
        self.notes = os.path.join(self.root, "notes")
        if apt:
            self.write("bin/apt-get", f'#!/bin/sh\necho "$@" >>{self.notes}\n{apt}\n', 0o755)
        return folder

    def setup(self, *args, path):
        run = self.call("tools/setup.sh", *args, PATH=path)
        return run.returncode, run.stdout + run.stderr

    def test_silent_when_everything_is_there(self):
        path = self.setup_machine("python3 clang-format-14", user=1000)
        self.assertEqual(self.setup("tidy", "format", path=path), (0, ""))

    def test_a_user_is_told_what_to_type(self):
        path = self.setup_machine("", user=1000)
        self.assertEqual(self.setup("tidy", "test", "format", path=path), (
            1, "missing: clang-format-14 python3\n"
               "type:    sudo apt-get install --no-install-recommends clang-format-14 python3\n"))
        self.assertFalse(os.path.exists(self.notes))

    def test_root_without_apt_is_told_too(self):
        path = self.setup_machine("", user=0, apt=None)
        self.assertEqual(self.setup("tidy", path=path), (
            1, "missing: python3\ntype:    apt-get install --no-install-recommends python3\n"))

    def test_root_gets_it_installed(self):
        path = self.setup_machine("python3", user=0)
        self.assertEqual(self.setup("tidy", "format", path=path),
                         (0, "installing clang-format-14\n"))
        with open(self.notes, encoding="utf-8") as notes:
            self.assertEqual(notes.read(), "-q update\n-q -y install --no-install-recommends "
                                           "clang-format-14\n")

    def test_a_failed_installation_is_a_failure(self):
        path = self.setup_machine("", user=0, apt="echo no route; exit 100")
        status, text = self.setup("tidy", path=path)
        self.assertEqual(status, 1)
        self.assertIn("no route\n", text)

    def test_what_is_optional_fails_nothing_and_is_tried_once(self):
        path = self.setup_machine("", user=0, apt="exit 100")
        self.assertEqual(self.setup("--try", "test", path=path)[0], 0)
        self.assertEqual(self.setup("--try", "test", path=path), (
            0, "missing: python3\ntype:    apt-get install --no-install-recommends python3\n"
               "optional: the tests of the tools are skipped without it\n"))
        with open(self.notes, encoding="utf-8") as notes:
            self.assertEqual(notes.read(), "-q update\n")

    def test_an_unknown_target_is_an_error(self):
        path = self.setup_machine("", user=1000)
        self.assertEqual(self.setup("tydi", path=path),
                         (2, "tools/setup.sh: unknown target tydi\n"))


if __name__ == "__main__":
    tap.main()
