#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   tools/tidy.py sees every breach of a house rule, and nothing else.
Method: a small tree without a breach is written to a temporary folder; each case changes one file
        so that one rule is broken and compares the whole list of findings.  The last case runs
        the tool on the tree it lives in.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import tidy  # noqa: E402  (only now on the path)

SPDX = "/* SPDX-License-Identifier: MIT */\n"


def header(guard, body=""):
    return f"{SPDX}#ifndef {guard}\n#define {guard}\n{body}#endif\n"


GOOD = {
    "Makefile": "test: # all\n\ttrue\n",
    "CMakeLists.txt": "add_library(weft src/base/a.c src/queue/ring.c)\n"
                      "include(cmake/tests.cmake)\n",
    "cmake/tests.cmake": "weft_test(test_ring tests/unit/test_ring.c)\n",
    "src/LAYERS": "# bottom first\nbase\nqueue\n",
    "src/base/base.h": header("WF_BASE_BASE_H", '#include "base/atomic.h"\n'),
    "src/base/atomic.h": header("WF_BASE_ATOMIC_H", "#include <stdatomic.h>\n"
                                "#define wf_load(p) load(p, memory_order_relaxed)\n"),
    "src/base/config.h": header("WF_BASE_CONFIG_H", "#define WF_LIMIT 3\n"),
    "src/base/a.c": SPDX + '#include "base/base.h"\n',
    "src/queue/queue.h": header("WF_QUEUE_QUEUE_H", "/* see ring.c */\nint wf_ring_pop(void);\n"),
    "src/queue/ring.c": SPDX + '#include <stdio.h>\n#include "base/base.h"\n'
                               '#include "queue/queue.h"\n#include "weft/weft.h"\n\n'
                               'int wf_ring_pop(void)\n{\n    WF_REACHED("ring.popped");\n'
                               '    return WF_LIMIT; /* base/config.h */\n}\n',
    "include/weft/weft.h": header("WEFT_WEFT_H", "#include <stddef.h>\nint weft_run(void);\n"),
    "tests/unit/test_ring.c": SPDX + '#include "queue/queue.h"\n',
    "tests/helper.h": header("TEST_HELPER_H"),
    "README.md": "`weft_run` is in `include/weft/weft.h`; ring.c has `wf_ring_*`; `make test`.\n",
}


class TidyCase(unittest.TestCase):
    def findings(self, changes):
        """Findings (path, line, what) in the good tree with these files added or replaced."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**GOOD, **changes}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as stream:
                    stream.write(text)
            self.found = tidy.findings_in(root)
        return [(finding.path, finding.line, finding.what) for finding in self.found]

    def expect(self, changes, *expected):
        self.assertEqual(self.findings(changes), list(expected))

    def expect_after(self, path, added, line, what):
        """Text added to one file of the good tree gives exactly one finding."""
        self.expect({path: GOOD[path] + added + "\n"}, (path, line, what))


class Layers(TidyCase):
    def test_a_tidy_tree_has_no_finding(self):
        self.expect({})

    # S0.2: parts that can be read one at a time
    def test_a_layer_may_not_include_one_above_it(self):
        self.expect_after("src/base/a.c", '#include "queue/queue.h"', 3,
                          "layer base may not include queue/queue.h: "
                          "queue comes later in src/LAYERS")

    def test_a_private_header_is_included_by_its_full_path(self):
        self.expect_after("src/base/a.c", '#include "config.h"', 3,
                          'include "config.h" by its full path from src')

    def test_a_private_header_is_included_in_quotes(self):
        self.expect_after("src/base/a.c", "#include <base/config.h>", 3,
                          'write "base/config.h": it is ours')

    def test_an_included_header_exists(self):
        self.expect_after("src/base/a.c", '#include "base/gone.h"', 3,
                          "there is no src/base/gone.h")
        self.expect_after("src/base/a.c", '#include "weft/gone.h"', 3,
                          "there is no include/weft/gone.h")

    def test_an_include_in_a_comment_is_none(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + '/*\n#include "queue.h"\n*/\n'})

    def test_only_the_atomics_may_reach_for_the_model(self):
        model = '#include "model/model_atomic.h"\n'
        self.expect({"src/base/atomic.h": GOOD["src/base/atomic.h"] + model})
        self.expect_after("src/base/a.c", model, 3, "there is no src/model/model_atomic.h")

    def test_a_folder_of_src_is_a_layer(self):
        self.expect({"src/trace/trace.h": header("WF_TRACE_TRACE_H")},
                    ("src/LAYERS", 1, "src/trace is not listed"))

    def test_a_layer_is_a_folder_of_src(self):
        self.expect_after("src/LAYERS", "sched", 4, "there is no folder src/sched")

    def test_a_layer_has_the_header_of_its_name(self):
        self.expect({"src/LAYERS": "base\nqueue\nos\n", "src/os/LIST": "\n"},
                    ("src/LAYERS", 3, "layer os lacks its header src/os/os.h"))

    def test_a_layer_has_no_second_header(self):
        self.expect({"src/queue/ring.h": header("WF_QUEUE_RING_H")},
                    ("src/queue/ring.h", 1, "a layer has one header, src/queue/queue.h"))

    def test_a_public_header_includes_no_private_one(self):
        for form in ('"base/base.h"', "<base/base.h>"):
            self.expect_after("include/weft/weft.h", f"#include {form}", 7,
                              'a public header may not include "base/base.h"')

    def test_a_public_header_includes_what_exists(self):
        self.expect_after("include/weft/weft.h", '#include "weft/gone.h"', 7,
                          "there is no include/weft/gone.h")


class Headers(TidyCase):
    def test_a_guard_names_layer_and_file(self):
        self.expect({"src/base/config.h": header("WF_CONFIG_H", "#define WF_LIMIT 3\n")},
                    ("src/base/config.h", 1, "the header guard must be WF_BASE_CONFIG_H"))

    def test_a_guard_in_public_and_test_headers(self):
        self.expect({"include/weft/weft.h": header("WF_WEFT_H", "int weft_run(void);\n")},
                    ("include/weft/weft.h", 1, "the header guard must be WEFT_WEFT_H"))
        self.expect({"tests/helper.h": header("OTHER_H")},
                    ("tests/helper.h", 1, "the header guard must be HELPER_H"))

    def test_a_header_without_guard(self):
        expected = ("tests/helper.h", 1, "the header guard must be HELPER_H")
        self.expect({"tests/helper.h": SPDX}, expected)
        self.expect({"tests/helper.h": f"{SPDX}#ifndef HELPER_H\n#define OTHER_H\n#endif\n"},
                    expected)

    def test_every_source_file_has_a_licence_line(self):
        self.expect({"src/base/a.c": "\n\n" + GOOD["src/base/a.c"]},
                    ("src/base/a.c", 1, "no SPDX line on top"))
        self.expect({"tools/x.sh": "#!/bin/sh\n"}, ("tools/x.sh", 1, "no SPDX line on top"))


class Sizes(TidyCase):
    def test_a_file_has_at_most_800_lines(self):
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + "\n" * 798})
        self.expect({"src/base/a.c": text + "\n" * 799},
                    ("src/base/a.c", 801, "801 lines; a file has at most 800"))

    def test_a_line_has_at_most_100_columns(self):
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + "/" * 100 + "\n"})
        self.expect({"src/base/a.c": text + "/" * 101 + "\n"},
                    ("src/base/a.c", 3, "wider than 100 columns"))

    def test_a_function_has_fewer_than_70_lines(self):
        def function(body_lines):
            return ("\n/* Why. */\nstatic int __attribute__((unused)) long_one(int a,\n"
                    "                    int b)\n{\n" + "    a++;\n" * body_lines + "}\n")
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + function(65) + function(65)})
        self.expect({"src/base/a.c": text + function(66)},
                    ("src/base/a.c", 5, "long_one has 70 lines; a function has fewer than 70"))

    def test_a_long_table_is_no_function(self):
        table = "\nstatic const int table[] = {\n" + "    1,\n" * 80 + "};\n"
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + table})


class Atomics(TidyCase):
    def test_sc_accesses_are_left_to_fences(self):
        for use in ("wf_load_seq_cst", "wf_store_seq_cst", "wf_cas_seq_cst",
                    "wf_fetch_add_seq_cst"):
            self.expect_after("src/base/a.c", f"int a = {use}(x);", 3,
                              f"{use}: order by wf_fence_seq_cst, which the model covers")

    def test_memory_orders_stand_in_one_header(self):
        for use, what in (("int a = memory_order_acquire;", "memory_order_acquire"),
                          ("__atomic_store_n(p, 1, 5);", "__atomic_store_n"),
                          ("__sync_synchronize();", "__sync_synchronize"),
                          ("atomic_thread_fence(x);", "atomic_thread_fence"),
                          ("#include <stdatomic.h>", "<stdatomic.h>"),
                          ("_Atomic int a;", "_Atomic")):
            self.expect_after("src/base/a.c", use, 3,
                              f"{what}: atomics only through base/atomic.h")

    def test_a_comment_may_speak_of_them(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + "/* not memory_order_relaxed */\n"})

    def test_the_model_may_not_use_them(self):
        text = header("MODEL_ATOMIC_H", "int a = memory_order_relaxed;\n")
        self.expect({"tests/model/model_atomic.h": text},
                    ("tests/model/model_atomic.h", 4,
                     "memory_order_relaxed: atomics only through base/atomic.h"))
        self.assertTrue(self.found[0].is_fatal)

    def test_a_test_that_uses_them_is_warned(self):
        self.expect_after("tests/unit/test_ring.c", "#include <stdatomic.h>", 3,
                          "<stdatomic.h>: atomics only through base/atomic.h")
        self.assertFalse(self.found[0].is_fatal)


class Words(TidyCase):
    def test_nothing_is_left_for_later(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            what = f"{word}: finish it, or write an issue"
            self.expect_after("src/base/a.c", f"/* {word} */", 3, what)
            self.expect_after("include/weft/weft.h", f"/* {word}: later */", 7, what)


class Marks(TidyCase):
    def test_a_mark_is_unique(self):
        self.expect_after("src/queue/ring.c", 'WF_REACHED("ring.popped")', 12,
                          'mark "ring.popped" stands already at src/queue/ring.c:9')

    def test_a_mark_names_its_layer_or_file(self):
        for name in ("popped", "deque.popped", "ring.Popped", "ring."):
            self.expect_after("src/queue/ring.c", f'WF_REACHED("{name}")', 12,
                              f'mark "{name}" must be of the form "ring.what"')
        more = 'WF_REACHED("queue.x")\nWF_REACHED("ring.x.y")\n'
        self.expect({"src/queue/ring.c": GOOD["src/queue/ring.c"] + more})

    def test_a_mark_is_a_literal(self):
        self.expect_after("src/queue/ring.c", "WF_REACHED(name)", 12,
                          'mark name must be of the form "ring.what"')

    def test_the_definition_and_a_comment_are_no_marks(self):
        self.expect({"src/base/base.h": header(
            "WF_BASE_BASE_H", '/* WF_REACHED("x") */\n#define WF_REACHED(name) ((void)0)\n')})


class Lists(TidyCase):
    def test_every_source_is_named_in_a_list(self):
        for path in ("src/base/b.c", "tests/unit/test_b.c", "tests/stress/b.c", "tests/model/b.c",
                     "bench/b.c", "examples/b.c"):
            self.expect({path: SPDX}, (path, 1, "named in no list: it is not built"))

    def test_a_comment_is_no_list(self):
        self.expect({"src/base/b.c": SPDX,
                     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "# src/base/b.c\n"},
                    ("src/base/b.c", 1, "named in no list: it is not built"))

    def test_a_list_may_stand_in_the_folder(self):
        self.expect({"bench/b.c": SPDX, "bench/CMakeLists.txt": "add_executable(b b.c)\n"})
        self.expect({"bench/b.c": SPDX,
                     "cmake/b.cmake": "add_executable(b ${CMAKE_SOURCE_DIR}/bench/b.c)\n"})
        self.expect({"bench/b.c": SPDX,
                     "bench/build.sh": "# SPDX-License-Identifier: MIT\ncc -o b b.c\n"})

    def test_lists_are_not_globbed(self):
        self.expect_after("CMakeLists.txt", "file(GLOB files src/*.c)", 3,
                          "name the files: no GLOB")


class Documents(TidyCase):
    def expect_prose(self, text, *missing):
        for path in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/adr/1.md"):
            self.expect({path: text}, *((path, line, what) for line, what in missing))

    def test_a_path_in_a_document_exists(self):
        self.expect_prose("see src/base/gone.c.\n", (1, "there is no src/base/gone.c"))
        self.expect_prose("in `src/base/a.c`, src/, src/base/, src/LAYERS, base/a.c and a.c.\n")
        self.expect_prose("\n`gone.c`\n", (2, "there is no gone.c"))
        self.expect_prose("docs/none/\n", (1, "there is no docs/none"))
        self.expect_prose("tests/unit/none_*.c\n", (1, "there is no tests/unit/none_*.c"))

    def test_what_is_no_path_of_ours_is_passed_over(self):
        self.expect_prose("<stdio.h>, and/or, src/<layer>/<file>.c, /proc/none.c, build/dev/x.c, "
                          "https://example.org/src/none.c, tests/unit/test_*.c\n")

    def test_a_name_in_a_document_exists(self):
        self.expect_prose("call wf_none()\n", (1, "there is no wf_none"))
        self.expect_prose("`weft_none`\n", (1, "there is no weft_none"))
        self.expect_prose("WF_NONE and WF_LIMIT\n", (1, "there is no WF_NONE"))
        self.expect_prose("wf_deque_* and wf_ring_*, wf_<noun>_<verb>, wf_ring_<verb>\n",
                          (1, "there is no wf_deque_*"))

    def test_a_name_only_in_a_comment_is_not_defined(self):
        self.expect({"README.md": "weft_ghost\n",
                     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "# (weft_ghost)\n"},
                    ("CMakeLists.txt", 3, "there is no weft_ghost"),
                    ("README.md", 1, "there is no weft_ghost"))

    def test_a_make_target_in_a_document_exists(self):
        self.expect_prose("`make none`, `make -j2 test V=1`, and make sure\n",
                          (1, "there is no target `make none`"))
        self.expect_prose("```sh\nmake test\nA=1 make none # all\n```\n",
                          (3, "there is no target `make none`"))

    def test_output_of_commands_is_passed_over(self):
        self.expect_prose("```text\nwf_none src/none.c\n```\n")
        self.expect_prose("```\n$ make test\nwf_none src/none.c\n```\n")
        self.expect_prose("```\n$ make none\nwf_none\n```\n",
                          (2, "there is no target `make none`"))
        self.expect_prose("```c\nwf_none();\n```\n", (2, "there is no wf_none"))
        self.expect_prose("```text\nwf_none\n```\nwf_none\n", (4, "there is no wf_none"))

    def test_the_future_is_marked_and_the_mark_goes_when_it_came(self):
        self.expect_prose("wf_none in src/none.c <!-- tidy: future -->\n")
        self.expect_prose("wf_ring_pop <!-- tidy: future -->\n",
                          (1, "nothing here is to come any more: drop `tidy: future`"))
        self.expect_prose("write `<!-- tidy: future -->`\n")


class Comments(TidyCase):
    def test_a_file_named_in_a_comment_exists(self):
        for text, path in (("see none.c", "none.c"), ("as base/none.c does", "base/none.c"),
                           ("tests/none.sh", "tests/none.sh")):
            self.expect_after("src/base/a.c", f"/* {text} */", 3, f"there is no {path}")
        self.expect_after("Makefile", "# see tools/none.sh", 3, "there is no tools/none.sh")

    def test_a_name_in_a_comment_exists(self):
        self.expect_after("src/base/a.c", "/* pairs with wf_none */", 3, "there is no wf_none")

    def test_a_string_is_no_comment(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + 'const char *t = "/* none.c */";\n'})


class Program(unittest.TestCase):
    def run_tidy(self, *args):
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "tidy.py"), *args],
                              capture_output=True, text=True, check=False)

    def test_a_breach_is_printed_and_fails(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src"))
            with open(os.path.join(root, "src", "x.c"), "w", encoding="utf-8") as stream:
                stream.write("/* TODO */\n")
            run = self.run_tidy(root)
        self.assertEqual(run.returncode, 1)
        self.assertIn("src/x.c:1: TODO: finish it, or write an issue\n", run.stdout)

    def test_this_tree_is_tidy(self):
        run = self.run_tidy()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, r"tidy: \d+ rules kept\n$")

    def test_every_fault_has_its_place(self):
        run = subprocess.run([os.path.join(ROOT, "tests", "model", "faults.py"), "--texts"],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)


class Parts(unittest.TestCase):
    """The tree itself: what may be read alone stays apart."""

    @staticmethod
    def files_with(pattern):
        folder = pathlib.Path(__file__).resolve().parents[2] / "src" / "sched"
        return sorted(path.name for path in folder.glob("*.[ch]")
                      if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))

    # S1.3: what starts the reactor, its loop, and the states of tasks
    def test_the_reactor_its_start_and_the_states_are_apart(self):
        self.assertEqual(self.files_with(r"\bwf_reactor_new\(runtime\)"), ["runtime.c"])
        self.assertEqual(self.files_with(r"^struct wf_reactor \{"), ["reactor.c"])
        self.assertEqual(self.files_with(r"\bcontrol_main\b"), ["reactor.c"])
        self.assertEqual(self.files_with(r"^bool wf_state_park\([^;{]*\)\n\{"), ["state.c"])
        self.assertNotIn("state.c", self.files_with(r"\bwf_reactor|\bwf_policy|->policy\b"))


if __name__ == "__main__":
    tap.main()
