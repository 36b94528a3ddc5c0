#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   tools/promises.py counts exactly the numbers that tests cite, and rejects a table or a test
        with a wrong number; the real tree has neither.
Method: each test writes a tree of a few files with one fault to a temporary folder.  The last tests
        run the tool on the real tree.

p() and b() build the numbers, and no number is written out in this file: the tool reads this file
too, and must not count an example as a citation.
"""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # a test must not write into the source tree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools" / "promises.py"
sys.path[:0] = [str(TOOL.parent), str(pathlib.Path(__file__).resolve().parent)]

import promises  # noqa: E402
import tap  # noqa: E402

# A copy of SIZES in the tool: an edit of the tool must not lose a promise.
DESIGN_SIZES = [31, 30, 53, 25, 45]
BEHAVIOURS = 66


def p(design, n):
    return f"S{design}.{n}"


def b(text):
    return f"behaviour{text}"


def table_rows():
    rows = [f"| {p(design, n)} | A promise. | a place |"
            for design, size in enumerate(DESIGN_SIZES) for n in range(1, size + 1)]
    return rows + [f"| {n} | A behaviour. |" for n in range(1, BEHAVIOURS + 1)]


class Tree(unittest.TestCase):
    """A temporary tree with a valid table, in which tests place faults."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("docs/promises.md", "\n".join(["# Promises", "", *table_rows(), ""]))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def write_table(self, rows):
        self.write("docs/promises.md", "\n".join(rows))

    def run_tool(self, *arguments):
        """Returns exit status, standard output and standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = promises.main(["--root", str(self.root), *arguments])
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()

    def kept_by(self, text):
        """The promises that a test with this text keeps: {(family, n)}.  The text has no fault."""
        self.write("tests/a.c", text)
        mentions, faults = promises.scan_tests(self.root)
        self.assertEqual(faults, [])
        self.in_part = {tuple(number) for number in mentions} - \
            {tuple(number) for number in promises.kept(mentions)}
        return {tuple(number) for number in promises.kept(mentions)}


class Table(Tree):
    def assert_rejected(self, rows, *words):
        self.write_table(rows)
        status, _, err = self.run_tool()
        self.assertEqual(status, 1)
        for word in words:
            self.assertIn(word, err)

    def test_table_without_fault_is_accepted(self):
        status, out, err = self.run_tool()
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"promises +0 of 184 kept")
        self.assertRegex(out, r"behaviours +0 of +66 kept")

    def test_table_without_a_row_is_rejected(self):
        gone = p(2, 17)
        self.assert_rejected([row for row in table_rows() if f" {gone} " not in row],
                             "S2 has no row for 17")

    def test_table_without_the_last_row_of_a_design_is_rejected(self):
        for design, size in enumerate(DESIGN_SIZES):
            gone = p(design, size)
            self.assert_rejected([row for row in table_rows() if f" {gone} " not in row],
                                 f"S{design} has no row for {size}")

    def test_table_without_a_behaviour_is_rejected(self):
        self.assert_rejected([row for row in table_rows() if not row.startswith("| 66 ")],
                             "no row for 66")

    def test_table_with_a_duplicate_row_is_rejected(self):
        rows = table_rows()
        self.assert_rejected(rows[:9] + [rows[8]] + rows[9:],
                             f"promises.md:10: {p(0, 9)} is a duplicate")

    def test_table_out_of_order_is_rejected(self):
        rows = table_rows()
        rows[3], rows[4] = rows[4], rows[3]
        self.assert_rejected(rows, f"promises.md:5: {p(0, 4)} is out of order, after 5")

    def test_table_with_an_unknown_number_is_rejected(self):
        for row in (f"| {p(4, 46)} | One more. | a place |", f"| {p(5, 1)} | A sixth. | a place |",
                    f"| {p(1, 0)} | A nought. | a place |", "| 67 | One more. |"):
            self.assert_rejected(table_rows() + [row], "there is no promise ")

    def test_table_with_wrong_columns_is_rejected(self):
        for bad in (f"| {p(0, 1)} | No place. |", f"| {p(0, 1)} | Empty place. | |",
                    f"| {p(0, 1)} | One | column | more. |"):
            self.assert_rejected([bad] + table_rows()[1:],
                                 f"{p(0, 1)} has too few or too many columns")

    def test_table_with_a_mistyped_number_is_rejected(self):
        self.assert_rejected(["| S0,1 | A comma. | a place |"] + table_rows()[1:],
                             "S0 has no row for 1")

    def test_table_missing_is_bad_usage(self):
        (self.root / "docs" / "promises.md").unlink()
        status, _, err = self.run_tool()
        self.assertEqual(status, 2)
        self.assertIn("cannot read the table", err)


class Citations(Tree):
    def test_citation_of_one_number_counts(self):
        self.assertEqual(self.kept_by(f"/* Keeps {p(4, 12)}. */"), {("S4", 12)})

    def test_citation_of_a_list_counts(self):
        self.assertEqual(self.kept_by(f"/* {p(4, 9)}, {p(4, 11)} and {p(0, 1)} */"),
                         {("S4", 9), ("S4", 11), ("S0", 1)})

    def test_citation_of_a_range_counts(self):
        whole = {("S4", n) for n in range(9, 15)}
        self.assertEqual(self.kept_by(f"/* {p(4, 9)}-{p(4, 14)} */"), whole)
        self.assertEqual(self.kept_by(f"/* {p(4, 9)}-14. */"), whole)

    def test_citation_with_hyphen_and_word_is_not_a_range(self):
        self.assertEqual(self.kept_by(f"/* the {p(4, 9)}-style ring */"), {("S4", 9)})

    def test_citation_needs_the_exact_form(self):
        self.assertEqual(self.kept_by(f"x{p(4, 9)} {p(4, 9)}f S4 4.9 s4.9"), set())

    def test_citation_of_behaviours_counts(self):
        for text, kept in ((" 5", {5}), (" 4-6", {4, 5, 6}), ("s 4-6", {4, 5, 6}),
                           ("s 4-6, 8 and 9", {4, 5, 6, 8, 9}), ("s 4, 5, and 7.", {4, 5, 7})):
            self.assertEqual(self.kept_by(f"/* {b(text)} */"),
                             {("behaviour", n) for n in kept}, text)

    def test_citation_may_begin_a_sentence(self):
        self.assertEqual(self.kept_by(f"/* {b(' 5').capitalize()}. */"), {("behaviour", 5)})

    def test_citation_list_continues_over_comment_lines(self):
        for mark in (" *", "//", "#"):
            self.assertEqual(self.kept_by(f"{b('s')}\n{mark} 4,\n{mark} 6 and\n{mark} 8"),
                             {("behaviour", 4), ("behaviour", 6), ("behaviour", 8)}, mark)

    def test_citation_in_the_singular_takes_one_number(self):
        self.assertEqual(self.kept_by(f"/* {b(' 5, 10')} threads */"), {("behaviour", 5)})

    def test_citation_excludes_quantities(self):
        self.assertEqual(self.kept_by(f"{b('s 4, 10')}^7 rounds, {b(' 10')}ms, {b(' 1')}.5"),
                         {("behaviour", 4)})

    def test_citation_ends_with_the_comment(self):
        self.assertEqual(self.kept_by(f"/* odd {b('')} */ 5"), set())

    def test_citation_of_a_part_does_not_count(self):
        for words in ("part of ", "Part of ", "part\n * of "):
            self.assertEqual(self.kept_by(f"/* {words}{p(4, 9)} */"), set(), words)
            self.assertEqual(self.in_part, {("S4", 9)})
            self.assertEqual(self.kept_by(f"/* {words}{b('s 4-5 and 7')} */"), set(), words)
            self.assertEqual(self.in_part, {("behaviour", n) for n in (4, 5, 7)})
        self.assertEqual(self.kept_by(f"/* part of {p(4, 9)}-{p(4, 11)} */"), set())
        self.assertEqual(self.in_part, {("S4", 9), ("S4", 10), ("S4", 11)})

    def test_citation_of_a_part_ends_at_the_comma(self):
        self.assertEqual(self.kept_by(f"/* part of {p(4, 9)}, {p(4, 11)}; part of {b(' 5')} */"),
                         {("S4", 11)})
        self.assertEqual(self.in_part, {("S4", 9), ("behaviour", 5)})

    def test_citation_of_part_and_whole_counts(self):
        self.assertEqual(self.kept_by(f"part of {p(4, 9)}\n{p(4, 9)}\npart of {p(4, 9)}"),
                         {("S4", 9)})

    def test_citation_of_an_unknown_part_is_rejected(self):
        self.write("tests/a.c", f"/* part of {p(4, 46)} */")
        self.assertEqual(self.run_tool()[0], 1)

    def test_citation_of_an_unknown_number_is_rejected(self):
        for text, what in ((p(4, 46), p(4, 46)), (p(4, 0), p(4, 0)), (p(5, 1), p(5, 1)),
                           (f"{p(4, 40)}-{p(4, 46)}", p(4, 46)),
                           (b(" 67"), b(" 67")), (b("s 60-70"), b(" 70")), (b("s 1, 0"), b(" 0"))):
            self.write("tests/unit/test_x.c", f"\n/* {text} */\n")
            status, _, err = self.run_tool()
            self.assertEqual((status, err), (1, f"tests/unit/test_x.c:2: there is no {what}\n"))

    def test_citation_of_an_invalid_range_is_rejected(self):
        for text in (f"{p(4, 9)}-{p(4, 3)}", f"{p(3, 9)}-{p(4, 10)}", b("s 9-3")):
            self.write("tests/test_x.c", text)
            status, _, err = self.run_tool()
            self.assertEqual(status, 1, text)
            self.assertIn("is not a range", err)

    def test_citations_are_read_only_in_tests(self):
        for name in ("tests/a.c", "tests/b.h", "tests/deep/er/c.sh", "tests/d.py", "tests/e.raya"):
            self.write(name, p(1, 1))
        for name in ("src/f.c", "bench/g.c", "tests/h.md", "tests/i.log", "j.c"):
            self.write(name, p(1, 2))
        _, out, _ = self.run_tool("--list", p(1, 1))
        self.assertEqual([line.split()[0] for line in out.splitlines()[1:]],
                         ["tests/a.c:1", "tests/b.h:1", "tests/d.py:1",
                          "tests/deep/er/c.sh:1", "tests/e.raya:1"])
        _, out, _ = self.run_tool("--list", p(1, 2))
        self.assertEqual(out, f"{p(1, 2)}: A promise.\n    no test cites it yet\n")


class Report(Tree):
    def test_report_adds_up_numbers_and_ranges(self):
        self.write("tests/a.c", f"{p(0, 1)} {p(0, 3)}-{p(0, 30)} {b('s 2-66')}")
        self.write("tests/b.c", f"{p(0, 1)} {p(3, 1)}-{p(3, 25)}")
        status, out, _ = self.run_tool()
        self.assertEqual(status, 0)
        self.assertRegex(out, r"S0 +29 of +31 kept\n +not yet: 2, 31\n")
        self.assertRegex(out, r"S1 +0 of +30 kept\n +not yet: 1-30\n")
        self.assertRegex(out, r"S3 +25 of +25 kept\nS4 ")
        self.assertRegex(out, r"promises +54 of 184 kept\n")
        self.assertRegex(out, r"behaviours +65 of +66 kept\n +not yet: 1\n")

    def test_report_counts_parts_separately(self):
        self.write("tests/a.c", f"part of {p(0, 1)}-{p(0, 30)} {p(0, 3)}; part of {b(' 2')}")
        _, out, _ = self.run_tool()
        self.assertRegex(out, r"S0 +1 of +31 kept, 29 in part\n"
                              r" +in part: 1-2, 4-30\n +not yet: 31\n")
        self.assertRegex(out, r"promises +1 of 184 kept, 29 in part\n")
        self.assertRegex(out, r"behaviours +0 of +66 kept, 1 in part\n +in part: 2\n")

    def test_report_wraps_long_lists(self):
        self.write("tests/a.c", " ".join(p(2, n) for n in range(1, 54, 2)))
        _, out, _ = self.run_tool()
        self.assertLessEqual(max(len(line) for line in out.splitlines()), 100)
        self.assertIn(" 52\n", out)

    def test_list_shows_file_and_line(self):
        self.write("tests/a.c", f"\n\n/* {p(4, 1)}-{p(4, 3)}\n * {b('s 1,')}\n * 2 */\n")
        for number, place in ((p(4, 2), "a.c:3"), (b(" 1"), "a.c:4"), ("2", "a.c:5")):
            status, out, err = self.run_tool("--list", *number.split())
            self.assertEqual((status, err), (0, ""))
            self.assertEqual(out.splitlines()[1:], [f"    tests/{place}  whole file"])

    def test_list_shows_the_promise_and_the_tests(self):
        number = p(4, 1)
        self.write("tests/a.c", "\n".join([
            f"/* {number} */", "#include <a.h>",           # the whole file
            f"/* {number}: more",                           # directly before a function
            " * than a line. */", "static int *before(int a,", "                   int b)",
            "{", f"    /* part of {number} */", "}", "",    # inside the function
            f"/* {number} */", "static const int table[] = {", f"    1, /* {number} */", "};"]))
        self.write("tests/b.py", f"class A:\n    def test_b(self):\n        # {number}\n")
        for name in (number, number.lower()):
            _, out, _ = self.run_tool("--list", name)
            self.assertEqual(out.splitlines(), [
                f"{number}: A promise.",
                "    tests/a.c:1  whole file",
                "    tests/a.c:3  before",
                "    tests/a.c:8  before  (in part)",
                "    tests/a.c:11  whole file",
                "    tests/a.c:13  whole file",
                "    tests/b.py:3  test_b"])

    def test_list_of_an_unknown_number_is_bad_usage(self):
        for number in (p(4, 46), "67", "0", "S4", "rubbish"):
            status, _, err = self.run_tool("--list", number)
            self.assertEqual(status, 2)
            self.assertIn(f"there is no {number}", err)


class RealTree(unittest.TestCase):
    def test_promises_of_this_tree_have_no_fault(self):
        run = subprocess.run([sys.executable, "-B", str(TOOL)], capture_output=True, text=True,
                             check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertRegex(run.stdout, r"promises +\d+ of 184 kept")
        self.assertRegex(run.stdout, r"behaviours +\d+ of +66 kept")

    def test_promises_are_not_cited_by_this_file(self):
        mentions, _ = promises.scan_tests(ROOT)
        here = pathlib.Path(__file__).resolve().relative_to(ROOT).as_posix()
        self.assertNotIn(here, {mention.place.file
                                for where in mentions.values() for mention in where})


if __name__ == "__main__":
    tap.main()
