#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the promises of docs/promises.md that the tests keep.

A promise is kept if a file in tests/ cites its number.  The count is useful only if the numbers are
exact, so two things are errors: a test that cites a number that is not in the table, and a table
that is incomplete, out of order or has duplicates.

Citations in tests:   S4.12   S4.9-S4.14   S4.9-14   S4.9, S4.11
                      behaviour 5   behaviours 4-6, 8 and 9
                      part of S4.12   part of behaviours 4-6

A number after "part of" does not count: the test shows a part of the promise, and all tests
together do not yet show the whole.  "part of" applies to the number or range directly after it, up
to the comma, or to a whole list of behaviours.

Only the plural takes a list: in "behaviour 5, 10 threads" the 10 is not a behaviour.  A citation
that the tool misses shows as a promise not yet kept; a wrong citation would not show at all.

Exit status: 0 no errors, 1 errors in table or tests, 2 bad usage.
"""
import argparse
import collections
import pathlib
import re
import signal
import sys
import textwrap

# The number of promises in each family.  The table alone could lose its last row unnoticed; numbers
# never change, so this copy does not change either.
BEHAVIOUR = "behaviour"
SIZES = {"S0": 31, "S1": 30, "S2": 53, "S3": 25, "S4": 45, BEHAVIOUR: 66}
DESIGNS = [family for family in SIZES if family != BEHAVIOUR]

TABLE = pathlib.PurePath("docs", "promises.md")
TESTS = pathlib.PurePath("tests")
SUFFIXES = {".c", ".h", ".sh", ".py", ".raya"}

WIDTH = 100

Number = collections.namedtuple("Number", "family n")
Place = collections.namedtuple("Place", "file line")  # line 0: the whole file
Mention = collections.namedtuple("Mention", "place test is_part")
Span = collections.namedtuple("Span", "line first last is_part")

ROW = re.compile(r"\|\s*(?:(S\d+)\.)?(\d+)\s*\|(.*)\|\s*$")

# A list may continue on the next comment line: blanks, and the marks that begin such a line.
GAP = r"(?:[\s*#]|//)"
PART_OF = rf"(\bpart{GAP}+of{GAP}+)?"
COMMA_OR_AND = rf"(?:{GAP}*,{GAP}*(?:and{GAP}+)?|{GAP}+and{GAP}+)"
# Not the 10 of 10^7, 10ms or 10.5.
ITEM = r"\d+(?:-\d+)?(?![\w^]|\.\d)"
CITED_PROMISE = re.compile(rf"(?i:{PART_OF})\b(S\d+)\.(\d+)(?:-(?:(S\d+)\.)?(\d+))?\b")
CITED_BEHAVIOURS = re.compile(
    rf"{PART_OF}\bbehaviou?r(s?){GAP}+({ITEM}(?:{COMMA_OR_AND}{ITEM})*)", re.IGNORECASE)

# The name of a test: a function that begins in the first column, or a method of a test case.
DEFINITION = re.compile(r"(?:[a-z_].*?[\s*])?(\w+)\([^;]*$|\s+def (test_\w+)\(")


def number_text(number):
    if number.family == BEHAVIOUR:
        return f"behaviour {number.n}"
    return f"{number.family}.{number.n}"


def place_text(place):
    return f"{place.file}:{place.line}" if place.line else place.file


def exists(number):
    return 1 <= number.n <= SIZES.get(number.family, 0)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_table(text):
    """Returns the faults of the table as a list of (line, what)."""
    faults = []
    last = dict.fromkeys(SIZES, 0)
    seen = set()
    for line, row in enumerate(text.splitlines(), start=1):
        match = ROW.match(row)
        if match is None:
            continue
        family = match[1] or BEHAVIOUR
        number = Number(family, int(match[2]))
        name = number_text(number)
        cells = [cell.strip() for cell in match[3].split("|")]
        if not exists(number):
            faults.append((line, f"there is no promise {name}"))
            continue
        if len(cells) != (1 if family == BEHAVIOUR else 2) or "" in cells:
            faults.append((line, f"{name} has too few or too many columns"))
        if number in seen:
            faults.append((line, f"{name} is a duplicate"))
        elif number.n < last[family]:
            faults.append((line, f"{name} is out of order, after {last[family]}"))
        seen.add(number)
        last[family] = max(last[family], number.n)
    for family, size in SIZES.items():
        missing = [n for n in range(1, size + 1) if Number(family, n) not in seen]
        if missing:
            faults.append((0, f"{family} has no row for {ranges_text(missing)}"))
    return faults


def spans_in(text):
    """Yields a Span for each citation in the text of a test, valid or not; a citation of a single
    number has first equal to last."""
    for match in CITED_PROMISE.finditer(text):
        part, family, first, last_family, last = match.groups()
        yield Span(line_of(text, match.start(2)), Number(family, int(first)),
                   Number(last_family or family, int(last or first)), part is not None)
    for match in CITED_BEHAVIOURS.finditer(text):
        items = list(re.finditer(r"(\d+)(?:-(\d+))?", match[3]))
        for item in items if match[2] else items[:1]:
            yield Span(line_of(text, match.start(3) + item.start()),
                       Number(BEHAVIOUR, int(item[1])), Number(BEHAVIOUR, int(item[2] or item[1])),
                       match[1] is not None)


def test_at(lines, line):
    """The name of the function that contains the comment on this line, or that follows the comment
    directly; "" for the whole file."""
    def name_in(text):
        match = DEFINITION.match(text)
        return match[1] or match[2] if match else ""

    for text in reversed(lines[:line]):
        if name_in(text):
            return name_in(text)
        if text.startswith("}"):
            break
    for text in lines[line:]:
        if text.strip() and not text.startswith((" *", "/*")):
            return name_in(text)
    return ""


def span_fault(first, last):
    """Describes the fault of a range of numbers; None if it has none."""
    for number in (first, last):
        if not exists(number):
            return f"there is no {number_text(number)}"
    if first.family != last.family or first.n > last.n:
        return f"{number_text(first)} to {number_text(last)} is not a range"
    return None


def scan_tests(root):
    """Returns the citations, {Number: [Mention]}, and the faults as (Place, what)."""
    mentions = collections.defaultdict(list)
    faults = []
    for path in sorted((root / TESTS).rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        file = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        for span in spans_in(text):
            place = Place(file, span.line)
            fault = span_fault(span.first, span.last)
            if fault is not None:
                faults.append((place, fault))
                continue
            mention = Mention(place, test_at(text.splitlines(), span.line), span.is_part)
            for n in range(span.first.n, span.last.n + 1):
                mentions[Number(span.first.family, n)].append(mention)
    return mentions, faults


def kept(mentions):
    """The numbers that a test cites without "part of"."""
    return {number for number, where in mentions.items()
            if not all(mention.is_part for mention in where)}


def ranges_text(numbers):
    """[1, 2, 3, 5] -> "1-3, 5"; the numbers must be in order."""
    runs = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def count_line(title, families, mentions):
    whole = sum(1 for number in kept(mentions) if number.family in families)
    parts = sum(1 for number in mentions if number.family in families) - whole
    total = sum(SIZES[family] for family in families)
    return f"{title:<10} {whole:>3} of {total:>3} kept" + (f", {parts} in part" if parts else "")


def family_report(family, mentions):
    """A line for a family, then the numbers that no test keeps."""
    lines = [count_line("behaviours" if family == BEHAVIOUR else family, [family], mentions)]
    numbers = [Number(family, n) for n in range(1, SIZES[family] + 1)]
    unkept = [number for number in numbers if number not in kept(mentions)]
    for title, some in (("in part: ", [number.n for number in unkept if number in mentions]),
                        ("not yet: ", [number.n for number in unkept if number not in mentions])):
        if some:
            lines += textwrap.wrap(title + ranges_text(some), WIDTH,
                                   initial_indent="    ", subsequent_indent=" " * 13)
    return "\n".join(lines)


def report(mentions):
    return "\n".join([
        *(family_report(family, mentions) for family in DESIGNS),
        count_line("promises", DESIGNS, mentions),
        family_report(BEHAVIOUR, mentions),
    ])


def promise_text(number, table):
    """The text of the promise with this number."""
    for row in table.splitlines():
        match = ROW.match(row)
        if match and Number(match[1] or BEHAVIOUR, int(match[2])) == number:
            return match[3].split("|")[0].strip()
    return ""


def print_mentions(number, table, mentions):
    print(textwrap.fill(f"{number_text(number)}: {promise_text(number, table)}", WIDTH))
    for mention in mentions.get(number, []):
        part = "  (in part)" if mention.is_part else ""
        print(f"    {place_text(mention.place)}  {mention.test or 'whole file'}{part}")
    if number not in mentions:
        print("    no test cites it yet")


def parse_number(text):
    """Parses S4.12, s4.12, "behaviour 5" or 5; None for other text and for a number that does not
    exist."""
    match = re.fullmatch(r"(?:(S\d+)\.|(?:behaviour )?)(\d+)", text, re.IGNORECASE)
    if match is None:
        return None
    number = Number(match[1].upper() if match[1] else BEHAVIOUR, int(match[2]))
    return number if exists(number) else None


def main(arguments):
    parser = argparse.ArgumentParser(description="Counts the promises that the tests keep.")
    parser.add_argument("--list", nargs="+", metavar="NUMBER",
                        help="show the tests that cite it: S4.12, or behaviour 5")
    parser.add_argument("--root", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the source tree (default: the tree of this tool)")
    options = parser.parse_args(arguments)

    wanted = None
    if options.list:
        wanted = parse_number(" ".join(options.list))
        if wanted is None:
            parser.error(f"there is no {' '.join(options.list)}")

    try:
        table = (options.root / TABLE).read_text(encoding="utf-8")
    except OSError as error:
        parser.error(f"cannot read the table: {error}")
    mentions, test_faults = scan_tests(options.root)
    faults = [(Place(TABLE.as_posix(), line), what) for line, what in check_table(table)]
    faults += test_faults
    for place, what in faults:
        print(f"{place_text(place)}: {what}", file=sys.stderr)

    if wanted is not None:
        print_mentions(wanted, table, mentions)
    else:
        print(report(mentions))
    return 1 if faults else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a traceback
    sys.exit(main(sys.argv[1:]))
