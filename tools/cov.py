#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Coverage by folder, against limits.

    tools/cov.py BUILD_DIR        a build with counters, after its tests ran

Prints what no test took, and the share of lines and branches of each folder of src that tests did
take; exits 1 when a folder is below its limit.  Branches of assertions do not count: the failing
side is not meant to be taken.  Neither do the programs of the model, which compile the same files
in another way and do not run here.
"""
import json
import subprocess
import sys

# folder: (percent of lines, percent of branches)
LIMITS = {
    "src/base": (95, 85),
    "src/os": (95, 85),
    "src/fiber": (95, 85),
    "src/queue": (95, 85),
    "src/io": (95, 85),
    "src/par": (95, 85),
    "src/sched": (95, 85),
    "src/sync": (95, 85),
    "src/time": (95, 85),
    "src/trace": (95, 85),
}

MODEL = r".*/model_[^/]*$"
ASSERTIONS = r".*\bWEFT_(CHECK|ASSERT|ASSERT_SLOW)\(.*"


def measure(build):
    """gcovr's view of src: a list of files, each with its lines and their branches."""
    run = subprocess.run(
        ["gcovr", "--root", ".", "--filter", "src/", "--json", "-",
         "--exclude-directories", MODEL, "--exclude-unreachable-branches",
         "--exclude-branches-by-pattern", ASSERTIONS, build],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stderr)
    return json.loads(run.stdout)["files"]


def percent(hit, total):
    return 100.0 * hit / total if total else 100.0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folders = {}
    for file in measure(sys.argv[1]):
        path = file["file"]
        count = folders.setdefault(path.rsplit("/", 1)[0], [0, 0, 0, 0])
        for line in file["lines"]:
            if line["gcovr/noncode"]:
                continue
            is_run = line["count"] > 0
            taken = [branch["count"] > 0 for branch in line["branches"]]
            if not is_run:
                print(f"{path}:{line['line_number']}: no test runs this line")
            elif not all(taken):
                print(f"{path}:{line['line_number']}: "
                      f"{taken.count(False)} of {len(taken)} branches not taken")
            for index, number in enumerate((is_run, 1, sum(taken), len(taken))):
                count[index] += number
    is_low = False
    print(f"{'folder':12} {'lines':>18} {'branches':>18}   limits")
    for folder in sorted(set(folders) | set(LIMITS)):
        lines, all_lines, branches, all_branches = folders.get(folder, (0, 0, 0, 0))
        of_lines, of_branches = percent(lines, all_lines), percent(branches, all_branches)
        limits = LIMITS.get(folder, (0, 0))
        # A folder with a limit and no code was not measured, which is no coverage.
        below = of_lines < limits[0] or of_branches < limits[1] or all_lines == 0
        is_low = is_low or below
        print(f"{folder:12} {of_lines:6.1f} % ({lines:4}/{all_lines:4}) "
              f"{of_branches:6.1f} % ({branches:4}/{all_branches:4})"
              f"   {limits[0]} % {limits[1]} %{'   BELOW' if below else ''}")
    return 1 if is_low else 0


if __name__ == "__main__":
    sys.exit(main())
