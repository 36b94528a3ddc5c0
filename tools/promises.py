#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts which promises of docs/promises.md the tests keep.

A promise is kept when a file below tests/ names its number, so the count is only worth something
if numbers are exact.  Two things are therefore errors: a test that names a number which is not in
the table, and a table that is not complete, in order and without doubles.

Understood in tests:  S4.12   S4.9-S4.14   S4.9-14   S4.9, S4.11
                      behaviour 5   behaviours 4-6, 8 and 9

Only the plural takes a list: in "behaviour 5, 10 threads" the 10 is not a behaviour.  Counting too
little shows up as a promise not yet kept; counting too much would show up nowhere.

Exit status: 0 fine, 1 errors in table or tests, 2 bad usage.
"""
import argparse
import collections
import pathlib
import re
import signal
import sys
import textwrap

# How many numbers each family has.  They stand here as well as in the table because numbers never
# change: the table alone could lose its last row unnoticed.
BEHAVIOUR = "behaviour"
SIZES = {"S0": 31, "S1": 30, "S2": 53, "S3": 25, "S4": 45, BEHAVIOUR: 66}
DESIGNS = [family for family in SIZES if family != BEHAVIOUR]

TABLE = pathlib.PurePath("docs", "promises.md")
TESTS = pathlib.PurePath("tests")
SUFFIXES = {".c", ".h", ".sh", ".py", ".raya"}

WIDTH = 100

Number = collections.namedtuple("Number", "family n")
Place = collections.namedtuple("Place", "file line")  # line 0: the file as a whole

ROW = re.compile(r"\|\s*(?:(S\d+)\.)?(\d+)\s*\|(.*)\|\s*$")

CITED_PROMISE = re.compile(r"\b(S\d+)\.(\d+)(?:-(?:(S\d+)\.)?(\d+))?\b")

# A list may run on over lines of a comment: blanks and the marks that begin such a line.
GAP = r"(?:[\s*#]|//)"
COMMA_OR_AND = rf"(?:{GAP}*,{GAP}*(?:and{GAP}+)?|{GAP}+and{GAP}+)"
# Not the 10 of 10^7, 10ms or 10.5.
ITEM = r"\d+(?:-\d+)?(?![\w^]|\.\d)"
CITED_BEHAVIOURS = re.compile(
    rf"\bbehaviou?r(s?){GAP}+({ITEM}(?:{COMMA_OR_AND}{ITEM})*)", re.IGNORECASE)


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
    """Gives the faults of the table as (line, what); none when it is as it must be."""
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
            faults.append((line, f"{name} is not a number of ours"))
            continue
        if len(cells) != (1 if family == BEHAVIOUR else 2) or "" in cells:
            faults.append((line, f"{name} lacks a column or has one too many"))
        if number in seen:
            faults.append((line, f"{name} stands here for the second time"))
        elif number.n < last[family]:
            faults.append((line, f"{name} stands behind {last[family]}"))
        seen.add(number)
        last[family] = max(last[family], number.n)
    for family, size in SIZES.items():
        missing = [n for n in range(1, size + 1) if Number(family, n) not in seen]
        if missing:
            faults.append((0, f"{family} has no row for {ranges_text(missing)}"))
    return faults


def spans_in(text):
    """Yields (line, first, last) for everything the text of a test names, true or not; first and
    last are the same Number where no range is named."""
    for match in CITED_PROMISE.finditer(text):
        family, first, last_family, last = match.groups()
        yield (line_of(text, match.start()), Number(family, int(first)),
               Number(last_family or family, int(last or first)))
    for match in CITED_BEHAVIOURS.finditer(text):
        items = list(re.finditer(r"(\d+)(?:-(\d+))?", match[2]))
        for item in items if match[1] else items[:1]:
            yield (line_of(text, match.start(2) + item.start()), Number(BEHAVIOUR, int(item[1])),
                   Number(BEHAVIOUR, int(item[2] or item[1])))


def span_fault(first, last):
    """Says what is wrong with a range of numbers; None when nothing is."""
    for number in (first, last):
        if not exists(number):
            return f"there is no {number_text(number)}"
    if first.family != last.family or first.n > last.n:
        return f"{number_text(first)} to {number_text(last)} is not a range"
    return None


def scan_tests(root):
    """Gives who names what, {Number: [Place]}, and the faults as (Place, what)."""
    keepers = collections.defaultdict(list)
    faults = []
    for path in sorted((root / TESTS).rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        file = path.relative_to(root).as_posix()
        for line, first, last in spans_in(path.read_text(encoding="utf-8", errors="replace")):
            fault = span_fault(first, last)
            if fault is not None:
                faults.append((Place(file, line), fault))
                continue
            for n in range(first.n, last.n + 1):
                keepers[Number(first.family, n)].append(Place(file, line))
    return keepers, faults


def ranges_text(numbers):
    """[1, 2, 3, 5] -> "1-3, 5"; the numbers are in order."""
    runs = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def count_kept(families, keepers):
    return sum(1 for number in keepers if number.family in families)


def family_report(family, keepers):
    """One line for a family, and below it the numbers that no test names."""
    size = SIZES[family]
    title = "behaviours" if family == BEHAVIOUR else family
    lines = [f"{title:<10} {count_kept([family], keepers):>3} of {size:>3} kept"]
    open_numbers = [n for n in range(1, size + 1) if Number(family, n) not in keepers]
    if open_numbers:
        lines += textwrap.wrap("not yet: " + ranges_text(open_numbers), WIDTH,
                               initial_indent="    ", subsequent_indent=" " * 13)
    return "\n".join(lines)


def report(keepers):
    total = sum(SIZES[family] for family in DESIGNS)
    return "\n".join([
        *(family_report(family, keepers) for family in DESIGNS),
        f"{'promises':<10} {count_kept(DESIGNS, keepers):>3} of {total:>3} kept",
        family_report(BEHAVIOUR, keepers),
    ])


def print_keepers(number, keepers):
    for place in keepers[number]:
        print(place_text(place))
    if not keepers[number]:
        print(f"no test names {number_text(number)} yet")


def parse_number(text):
    """Reads S4.12, "behaviour 5" or 5; None for anything else, and for what does not exist."""
    match = re.fullmatch(r"(?:(S\d+)\.|(?:behaviour )?)(\d+)", text)
    if match is None:
        return None
    number = Number(match[1] or BEHAVIOUR, int(match[2]))
    return number if exists(number) else None


def main(arguments):
    parser = argparse.ArgumentParser(description="Counts which promises the tests keep.")
    parser.add_argument("--list", nargs="+", metavar="NUMBER",
                        help="show the tests that name it: S4.12, or behaviour 5")
    parser.add_argument("--root", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to look at (default: the one this tool is in)")
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
    keepers, test_faults = scan_tests(options.root)
    faults = [(Place(TABLE.as_posix(), line), what) for line, what in check_table(table)]
    faults += test_faults
    for place, what in faults:
        print(f"{place_text(place)}: {what}", file=sys.stderr)

    if wanted is not None:
        print_keepers(wanted, keepers)
    else:
        print(report(keepers))
    return 1 if faults else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends it without a trace
    sys.exit(main(sys.argv[1:]))
