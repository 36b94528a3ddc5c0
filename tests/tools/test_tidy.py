#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   tools/tidy.py reports every violation of a project rule, and nothing else.
Method: each test writes a small tree without a violation to a temporary folder, changes one file so
        that it violates one rule, and compares the whole list of findings.  One test runs the tool
        on the real tree.
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
import tidy  # noqa: E402  (needs the path above)

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
        """Checks that text added to one file gives exactly one finding; `what` None: none."""
        expected = [(path, line, what)] if what else []
        self.expect({path: GOOD[path] + added + "\n"}, *expected)


class Layers(TidyCase):
    def test_tree_without_violation_has_no_finding(self):
        self.expect({})

    # S0.2: parts that can be read one at a time
    def test_layer_must_not_include_a_higher_layer(self):
        self.expect_after("src/base/a.c", '#include "queue/queue.h"', 3,
                          "layer base may not include queue/queue.h: "
                          "queue comes later in src/LAYERS")

    def test_include_has_the_full_path(self):
        self.expect_after("src/base/a.c", '#include "config.h"', 3,
                          'include "config.h" by its full path from src')

    def test_include_of_a_private_header_is_quoted(self):
        self.expect_after("src/base/a.c", "#include <base/config.h>", 3,
                          'write "base/config.h": it is a header of src')

    def test_include_names_an_existing_header(self):
        self.expect_after("src/base/a.c", '#include "base/gone.h"', 3,
                          "there is no src/base/gone.h")
        self.expect_after("src/base/a.c", '#include "weft/gone.h"', 3,
                          "there is no include/weft/gone.h")

    def test_include_in_a_comment_is_ignored(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + '/*\n#include "queue.h"\n*/\n'})

    def test_include_of_the_model_is_only_in_the_atomics(self):
        model = '#include "model/model_atomic.h"\n'
        self.expect({"src/base/atomic.h": GOOD["src/base/atomic.h"] + model})
        self.expect_after("src/base/a.c", model, 3, "there is no src/model/model_atomic.h")

    def test_folder_of_src_is_a_layer(self):
        self.expect({"src/trace/trace.h": header("WF_TRACE_TRACE_H")},
                    ("src/LAYERS", 1, "src/trace is not listed"))

    def test_layer_is_a_folder_of_src(self):
        self.expect_after("src/LAYERS", "sched", 4, "there is no folder src/sched")

    def test_layer_has_the_header_of_its_name(self):
        self.expect({"src/LAYERS": "base\nqueue\nos\n", "src/os/LIST": "\n"},
                    ("src/LAYERS", 3, "layer os lacks its header src/os/os.h"))

    def test_public_header_includes_no_private_header(self):
        for form in ('"base/base.h"', "<base/base.h>"):
            self.expect_after("include/weft/weft.h", f"#include {form}", 7,
                              'a public header may not include "base/base.h"')

    def test_public_header_includes_existing_headers(self):
        self.expect_after("include/weft/weft.h", '#include "weft/gone.h"', 7,
                          "there is no include/weft/gone.h")


class Headers(TidyCase):
    def test_guard_names_layer_and_file(self):
        self.expect({"src/base/config.h": header("WF_CONFIG_H", "#define WF_LIMIT 3\n")},
                    ("src/base/config.h", 1, "the header guard must be WF_BASE_CONFIG_H"))

    def test_guard_of_public_and_test_headers_names_the_file(self):
        self.expect({"include/weft/weft.h": header("WF_WEFT_H", "int weft_run(void);\n")},
                    ("include/weft/weft.h", 1, "the header guard must be WEFT_WEFT_H"))
        self.expect({"tests/helper.h": header("OTHER_H")},
                    ("tests/helper.h", 1, "the header guard must be HELPER_H"))

    def test_guard_is_required(self):
        expected = ("tests/helper.h", 1, "the header guard must be HELPER_H")
        self.expect({"tests/helper.h": SPDX}, expected)
        self.expect({"tests/helper.h": f"{SPDX}#ifndef HELPER_H\n#define OTHER_H\n#endif\n"},
                    expected)

    def test_licence_line_is_in_every_source_file(self):
        self.expect({"src/base/a.c": "\n\n" + GOOD["src/base/a.c"]},
                    ("src/base/a.c", 1, "the file must begin with an SPDX line"))
        self.expect({"tools/x.sh": "#!/bin/sh\n"},
                    ("tools/x.sh", 1, "the file must begin with an SPDX line"))


class Sizes(TidyCase):
    def test_file_has_at_most_800_lines(self):
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + "\n" * 798})
        self.expect({"src/base/a.c": text + "\n" * 799},
                    ("src/base/a.c", 801, "801 lines; a file has at most 800"))

    def test_line_has_at_most_100_columns(self):
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + "/" * 100 + "\n"})
        self.expect({"src/base/a.c": text + "/" * 101 + "\n"},
                    ("src/base/a.c", 3, "wider than 100 columns"))

    def test_function_has_fewer_than_70_lines(self):
        def function(body_lines):
            return ("\n/* Why. */\nstatic int __attribute__((unused)) long_one(int a,\n"
                    "                    int b)\n{\n" + "    a++;\n" * body_lines + "}\n")
        text = GOOD["src/base/a.c"]
        self.expect({"src/base/a.c": text + function(65) + function(65)})
        self.expect({"src/base/a.c": text + function(66)},
                    ("src/base/a.c", 5, "long_one has 70 lines; a function has fewer than 70"))

    def test_long_table_is_not_a_function(self):
        table = "\nstatic const int table[] = {\n" + "    1,\n" * 80 + "};\n"
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + table})


class Atomics(TidyCase):
    def test_sc_accesses_are_rejected_in_favour_of_fences(self):
        for use in ("wf_load_seq_cst", "wf_store_seq_cst", "wf_cas_seq_cst",
                    "wf_fetch_add_seq_cst"):
            self.expect_after("src/base/a.c", f"int a = {use}(x);", 3,
                              f"{use}: use wf_fence_seq_cst, which the model checker covers")

    def test_memory_orders_are_only_in_the_atomics_header(self):
        for use, what in (("int a = memory_order_acquire;", "memory_order_acquire"),
                          ("__atomic_store_n(p, 1, 5);", "__atomic_store_n"),
                          ("__sync_synchronize();", "__sync_synchronize"),
                          ("atomic_thread_fence(x);", "atomic_thread_fence"),
                          ("#include <stdatomic.h>", "<stdatomic.h>"),
                          ("_Atomic int a;", "_Atomic")):
            self.expect_after("src/base/a.c", use, 3,
                              f"{what}: atomics only through base/atomic.h")

    def test_memory_orders_in_comments_are_ignored(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + "/* not memory_order_relaxed */\n"})

    def test_memory_orders_in_the_model_are_rejected(self):
        text = header("MODEL_ATOMIC_H", "int a = memory_order_relaxed;\n")
        self.expect({"tests/model/model_atomic.h": text},
                    ("tests/model/model_atomic.h", 4,
                     "memory_order_relaxed: atomics only through base/atomic.h"))
        self.assertTrue(self.found[0].is_fatal)

    def test_memory_orders_in_tests_are_a_warning(self):
        self.expect_after("tests/unit/test_ring.c", "#include <stdatomic.h>", 3,
                          "<stdatomic.h>: atomics only through base/atomic.h")
        self.assertFalse(self.found[0].is_fatal)


class Words(TidyCase):
    def test_todo_words_are_rejected(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            what = f"{word}: finish it, or write an issue"
            self.expect_after("src/base/a.c", f"/* {word} */", 3, what)
            self.expect_after("include/weft/weft.h", f"/* {word}: later */", 7, what)


class Marks(TidyCase):
    def test_mark_is_unique(self):
        self.expect_after("src/queue/ring.c", 'WF_REACHED("ring.popped")', 12,
                          'mark "ring.popped" is already in use at src/queue/ring.c:9')

    def test_mark_names_its_layer_or_file(self):
        for name in ("popped", "deque.popped", "ring.Popped", "ring."):
            self.expect_after("src/queue/ring.c", f'WF_REACHED("{name}")', 12,
                              f'mark "{name}" must be of the form "ring.what"')
        more = 'WF_REACHED("queue.x")\nWF_REACHED("ring.x.y")\n'
        self.expect({"src/queue/ring.c": GOOD["src/queue/ring.c"] + more})

    def test_mark_is_a_literal(self):
        self.expect_after("src/queue/ring.c", "WF_REACHED(name)", 12,
                          'mark name must be of the form "ring.what"')

    def test_mark_in_definition_or_comment_is_ignored(self):
        self.expect({"src/base/base.h": header(
            "WF_BASE_BASE_H", '/* WF_REACHED("x") */\n#define WF_REACHED(name) ((void)0)\n')})


class Lists(TidyCase):
    def test_source_list_contains_every_source(self):
        for path in ("src/base/b.c", "tests/unit/test_b.c", "tests/stress/b.c", "tests/model/b.c",
                     "bench/b.c", "examples/b.c"):
            self.expect({path: SPDX}, (path, 1, "in no source list, so it is not built"))

    def test_source_list_ignores_comments(self):
        self.expect({"src/base/b.c": SPDX,
                     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "# src/base/b.c\n"},
                    ("src/base/b.c", 1, "in no source list, so it is not built"))

    def test_source_list_may_be_in_the_same_folder(self):
        self.expect({"bench/b.c": SPDX, "bench/CMakeLists.txt": "add_executable(b b.c)\n"})
        self.expect({"bench/b.c": SPDX,
                     "cmake/b.cmake": "add_executable(b ${CMAKE_SOURCE_DIR}/bench/b.c)\n"})
        self.expect({"bench/b.c": SPDX,
                     "bench/build.sh": "# SPDX-License-Identifier: MIT\ncc -o b b.c\n"})

    def test_source_list_must_not_use_glob(self):
        self.expect_after("CMakeLists.txt", "file(GLOB files src/*.c)", 3,
                          "list the files: no GLOB")


class Documents(TidyCase):
    def expect_prose(self, text, *missing):
        for path in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/adr/1.md"):
            self.expect({path: text}, *((path, line, what) for line, what in missing))

    def test_document_names_existing_paths(self):
        self.expect_prose("see src/base/gone.c.\n", (1, "there is no src/base/gone.c"))
        self.expect_prose("in `src/base/a.c`, src/, src/base/, src/LAYERS, base/a.c and a.c.\n")
        self.expect_prose("\n`gone.c`\n", (2, "there is no gone.c"))
        self.expect_prose("docs/none/\n", (1, "there is no docs/none"))
        self.expect_prose("tests/unit/none_*.c\n", (1, "there is no tests/unit/none_*.c"))

    def test_document_may_name_foreign_paths(self):
        self.expect_prose("<stdio.h>, and/or, src/<layer>/<file>.c, /proc/none.c, build/dev/x.c, "
                          "https://example.org/src/none.c, tests/unit/test_*.c\n")

    def test_document_uses_existing_names(self):
        self.expect_prose("call wf_none()\n", (1, "there is no wf_none"))
        self.expect_prose("`weft_none`\n", (1, "there is no weft_none"))
        self.expect_prose("WF_NONE and WF_LIMIT\n", (1, "there is no WF_NONE"))
        self.expect_prose("wf_deque_* and wf_ring_*, wf_<noun>_<verb>, wf_ring_<verb>\n",
                          (1, "there is no wf_deque_*"))

    def test_name_only_in_a_comment_is_not_defined(self):
        self.expect({"README.md": "weft_ghost\n",
                     "CMakeLists.txt": GOOD["CMakeLists.txt"] + "# (weft_ghost)\n"},
                    ("CMakeLists.txt", 3, "there is no weft_ghost"),
                    ("README.md", 1, "there is no weft_ghost"))

    def test_document_names_existing_make_targets(self):
        self.expect_prose("`make none`, `make -j2 test V=1`, and make sure\n",
                          (1, "there is no target `make none`"))
        self.expect_prose("```sh\nmake test\nA=1 make none # all\n```\n",
                          (3, "there is no target `make none`"))

    def test_document_output_of_commands_is_ignored(self):
        self.expect_prose("```text\nwf_none src/none.c\n```\n")
        self.expect_prose("```\n$ make test\nwf_none src/none.c\n```\n")
        self.expect_prose("```\n$ make none\nwf_none\n```\n",
                          (2, "there is no target `make none`"))
        self.expect_prose("```c\nwf_none();\n```\n", (2, "there is no wf_none"))
        self.expect_prose("```text\nwf_none\n```\nwf_none\n", (4, "there is no wf_none"))

    def test_future_words_are_rejected_if_nothing_is_missing(self):
        self.expect_prose("wf_none in src/none.c <!-- tidy: future -->\n")
        self.expect_prose("wf_ring_pop <!-- tidy: future -->\n",
                          (1, "everything on this line exists: remove `tidy: future`"))
        self.expect_prose("write `<!-- tidy: future -->`\n")


class Comments(TidyCase):
    def test_comment_names_existing_files(self):
        for text, path in (("see none.c", "none.c"), ("as base/none.c does", "base/none.c"),
                           ("tests/none.sh", "tests/none.sh")):
            self.expect_after("src/base/a.c", f"/* {text} */", 3, f"there is no {path}")
        self.expect_after("Makefile", "# see tools/none.sh", 3, "there is no tools/none.sh")

    def test_comment_uses_existing_names(self):
        self.expect_after("src/base/a.c", "/* pairs with wf_none */", 3, "there is no wf_none")

    def test_string_is_not_a_comment(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + 'const char *t = "/* none.c */";\n'})


class Actors(TidyCase):
    """Words that hide the actor of a sentence."""

    @staticmethod
    def fault(words):
        return f'"{words}": name the actor (docs/glossary.md)'

    def test_every_forbidden_word_is_found(self):
        for words in ("nobody", "somebody", "anybody", "everybody", "whoever", "who", "no one",
                      "someone", "anyone", "everyone", "those who", "the one that", "the one who"):
            self.expect_after("src/base/a.c", f"/* here {words} waits */", 3, self.fault(words))

    def test_words_are_found_across_lines_and_in_any_case(self):
        self.expect_after("src/base/a.c", "/* It is the one\n * that waits. */", 3,
                          self.fault("the one that"))
        self.expect_after("src/base/a.c", "/* Who waits. */", 3, self.fault("Who"))

    def test_other_words_are_left_alone(self):
        self.expect_after("README.md", "the whole, whose, no one-word name, one of those, `who`",
                          1, None)

    def test_comments_strings_and_identifiers_of_the_library_are_read(self):
        self.expect_after("src/base/a.c", 'const char *t = "nobody came";', 3,
                          self.fault("nobody"))
        self.expect_after("src/base/a.c", "int is_anybody_awake;", 3, self.fault("anybody"))
        self.expect({"include/weft/weft.h": GOOD["include/weft/weft.h"] + "/* who */\n"},
                    ("include/weft/weft.h", 7, self.fault("who")))

    def test_comments_and_texts_of_examples_and_benchmarks_are_read(self):
        for path in ("examples/e.c", "bench/e.c"):
            lists = {"CMakeLists.txt": GOOD["CMakeLists.txt"] + f"add_executable(e {path})\n"}
            self.expect({**lists, path: SPDX + "/* who */\n"}, (path, 2, self.fault("who")))
            self.expect({**lists, path: SPDX + 'const char *t = "who";\n'},
                        (path, 2, self.fault("who")))
            self.expect({**lists, path: SPDX + "int who;\n"})

    def test_names_of_tests_are_read(self):
        self.expect_after("tests/unit/test_ring.c", "TAP_TEST(a_ring_that_nobody_reads),", 3,
                          self.fault("nobody"))
        self.expect_after("tests/unit/test_ring.c", "TAP_TEST_LIMIT(who_waits, 60),", 3,
                          self.fault("who"))
        self.expect({"tests/unit/test_ring.c": GOOD["tests/unit/test_ring.c"] + "int nobody;\n"})

    def test_documents_and_their_file_names_are_read(self):
        for path in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md",
                     "docs/page.md", "bench/README.md"):
            self.expect({path: "Who waits?\n"}, (path, 1, self.fault("Who")))
        self.expect({"README.md": "`who` and\n```c\nint who;\n```\n"})
        self.expect({"docs/adr/0001-who-waits.md": "\n"},
                    ("docs/adr/0001-who-waits.md", 1, self.fault("who")))


TABLE = SPDX + """/*
 *   edge      from              to            carries
 *   queue.R1  ring.c push       ring.c pop    the item, and
 *                                             its memory
 *   queue.R2  ring.c pop        ring.c push   the slot
 */
#ifndef WF_QUEUE_QUEUE_H
#define WF_QUEUE_QUEUE_H
int wf_ring_pop(void);
#endif
"""


class Edges(TidyCase):
    USES = "/* (queue.R1) */\n/* (queue.R2) */\n/* pairs with (queue.R1, queue.R2). */\n"

    def expect_edges(self, table, uses, *expected):
        self.expect({"src/queue/queue.h": table,
                     "src/queue/ring.c": GOOD["src/queue/ring.c"] + uses}, *expected)

    def test_edges_that_are_declared_and_named_on_both_sides_pass(self):
        self.expect_edges(TABLE, self.USES)

    def test_rows_of_a_table_may_be_grouped(self):
        second = " *   queue.R2"
        self.expect_edges(TABLE.replace(second, " *\n" + second), self.USES)
        self.expect_edges(TABLE.replace(second, " *\n *   A list:\n" + second), self.USES,
                          ("src/queue/queue.h", 8, "write the edge as (queue.R2)"),
                          ("src/queue/ring.c", 13, "edge queue.R2 is declared in no table"),
                          ("src/queue/ring.c", 14, "edge queue.R2 is declared in no table"))

    def test_an_edge_in_use_is_declared(self):
        self.expect_edges(TABLE, self.USES + "/* (queue.R3) */\n",
                          ("src/queue/ring.c", 15, "edge queue.R3 is declared in no table"))

    def test_an_edge_is_named_on_both_sides(self):
        self.expect_edges(TABLE, "/* (queue.R1, queue.R2) */\n/* (queue.R1) */\n",
                          ("src/queue/queue.h", 6, "edge queue.R2 is named 1 times in code; "
                           "both of its sides have to name it"))

    def test_an_edge_is_declared_once(self):
        again = " *   queue.R2  ring.c pop        ring.c push   the slot\n"
        self.expect_edges(TABLE.replace(again, again + again), self.USES,
                          ("src/queue/queue.h", 7,
                           "edge queue.R2 is declared already at src/queue/queue.h:6"))

    def test_an_edge_is_declared_in_its_own_layer(self):
        table, uses = TABLE.replace("queue.R", "base.R"), self.USES.replace("queue.R", "base.R")
        self.expect_edges(table, uses,
                          ("src/queue/queue.h", 4, "edge base.R1 belongs to the header of layer "
                           "base"),
                          ("src/queue/queue.h", 6, "edge base.R2 belongs to the header of layer "
                           "base"))

    def test_an_edge_is_written_in_parentheses(self):
        self.expect_edges(TABLE, self.USES + "/* see queue.R1 */\n",
                          ("src/queue/ring.c", 15, "write the edge as (queue.R1)"))


class Statics(TidyCase):
    FUNCTION = "\nstatic int turn(void)\n{\n    return 0;\n}\n"

    def test_a_static_function_has_a_name_of_its_own(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + self.FUNCTION,
                     "src/queue/ring.c": GOOD["src/queue/ring.c"] + self.FUNCTION},
                    ("src/queue/ring.c", 13, "static turn is also in src/base/a.c:4"))

    def test_attributes_do_not_hide_the_name(self):
        long = "\nstatic __attribute__((noinline)) int\nturn(void)\n{\n    return 0;\n}\n"
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + long,
                     "src/queue/ring.c": GOOD["src/queue/ring.c"] + self.FUNCTION},
                    ("src/queue/ring.c", 13, "static turn is also in src/base/a.c:4"))

    def test_two_branches_of_the_preprocessor_may_share_a_name(self):
        both = f"#if X{self.FUNCTION}#else{self.FUNCTION}#endif\n"
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + both})

    def test_a_name_that_is_not_static_may_be_used_elsewhere(self):
        self.expect({"src/base/a.c": GOOD["src/base/a.c"] + self.FUNCTION,
                     "src/queue/ring.c": GOOD["src/queue/ring.c"] +
                     self.FUNCTION.replace("static ", "")})


class PublicNames(TidyCase):
    """The names in include/, by the lists of docs/api-style.md."""
    STYLE = ("# Style\n\n- system calls: `read`\n- verbs: `run`\n  `try_join`\n"
             "- nouns: `chan` `task`\n\nMore `text`.\n")

    def expect_api(self, body, *whats):
        text = header("WEFT_WEFT_H", "#include <stddef.h>\nint weft_run(void);\n" + body)
        self.expect({"docs/api-style.md": self.STYLE, "include/weft/weft.h": text},
                    *(("include/weft/weft.h", 6, what) for what in whats))

    def test_nouns_verbs_and_system_calls_pass(self):
        self.expect_api("WEFT_API int weft_read(int fd);\n"
                        "WEFT_API int weft_try_join(weft_task *task);\n"
                        "WEFT_API int weft_chan_try_send(weft_chan *chan, const void *item);\n")

    def test_a_name_begins_with_a_noun(self):
        self.expect_api("WEFT_API int weft_dial(const char *address);\n",
                        "weft_dial begins with no noun of docs/api-style.md, and is no verb there")

    def test_try_stands_before_the_verb(self):
        self.expect_api("static inline int weft_chan_send_try(weft_chan *chan)\n{\n}\n",
                        "weft_chan_send_try: `try` stands before the verb")

    def test_the_output_follows_the_object(self):
        self.expect_api("WEFT_API int weft_task_get(int (*fn)(int a, int b), int b, int *out);\n",
                        "weft_task_get: `out` is the first parameter, or follows the object")

    def test_a_flag_is_a_bool(self):
        self.expect_api("WEFT_API int weft_task_pin(int on);\n",
                        "weft_task_pin: `int on` should be a bool, or two functions")

    def test_what_begins_can_be_ended(self):
        self.expect_api("WEFT_API int weft_chan_new(weft_chan **out);\n",
                        "weft_chan_new has no weft_chan_unref or weft_chan_free")

    def test_enumerators_have_the_noun_of_their_enum(self):
        self.expect_api("enum weft_task_state { WEFT_TASK_READY, WEFT_ENDED };\n",
                        "WEFT_ENDED should begin with WEFT_TASK_")

    def test_options_begin_with_their_size(self):
        self.expect_api("struct weft_task_options {\n    int priority;\n};\n",
                        "weft_task_options should begin with `uint32_t size`")


class Places(TidyCase):
    """Prose that says in which file a name is."""

    def test_a_document_puts_a_name_into_a_file_that_contains_it(self):
        for form in ("`{}` in `{}`", "`{}` (`{}`)", "`{}` (in `{}`)", "`struct {}` in `{}`",
                     "`{}()` in `{}`"):
            self.expect({"README.md": form.format("wf_ring_pop", "src/queue/ring.c") + "\n"})
            self.expect({"README.md": form.format("wf_ring_pop", "src/base/a.c") + "\n"},
                        ("README.md", 1, "src/base/a.c does not contain wf_ring_pop"))
        self.expect({"README.md": "`src/base/a.c` (`claim`)\n"},
                    ("README.md", 1, "src/base/a.c does not contain claim"))

    def test_a_table_of_functions_and_files_is_right(self):
        table = "| step | function | file |\n|---|---|---|\n| 1 | `{}` | `ring.c`, `a.c` |\n"
        self.expect({"README.md": table.format("wf_ring_pop")})
        self.expect({"README.md": table.format("claim")},
                    ("README.md", 3, "no file of this row contains claim"))

    def test_a_comment_puts_a_name_into_a_file_that_contains_it(self):
        self.expect_after("src/base/a.c", "/* as wf_ring_pop (ring.c) */", 3, None)
        self.expect_after("src/base/a.c", "/* as wf_ring_pop in queue/ring.c */", 3, None)
        self.expect_after("src/base/a.c", "/* as wf_ring_pop (base/config.h) */", 3,
                          "base/config.h does not contain wf_ring_pop")
        self.expect_after("src/base/a.c", "/* see take_one in ring.c */", 3,
                          "ring.c does not contain take_one")

    def test_a_name_in_a_comment_only_is_not_contained(self):
        self.expect({"src/queue/ring.c": GOOD["src/queue/ring.c"] + "/* take_one */\n",
                     "README.md": "`take_one` in `src/queue/ring.c`\n"},
                    ("README.md", 1, "src/queue/ring.c does not contain take_one"))


class Program(unittest.TestCase):
    def run_tidy(self, *args):
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "tidy.py"), *args],
                              capture_output=True, text=True, check=False)

    def test_tidy_prints_a_violation_and_fails(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src"))
            with open(os.path.join(root, "src", "x.c"), "w", encoding="utf-8") as stream:
                stream.write("/* TODO */\n")
            run = self.run_tidy(root)
        self.assertEqual(run.returncode, 1)
        self.assertIn("src/x.c:1: TODO: finish it, or write an issue\n", run.stdout)

    def test_tidy_passes_on_this_tree(self):
        run = self.run_tidy()
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, r"tidy: \d+ rules kept\n$")

    def test_faults_match_the_source(self):
        run = subprocess.run([os.path.join(ROOT, "tests", "model", "faults.py"), "--texts"],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)


class Parts(unittest.TestCase):
    """The real tree: parts that can be read separately are in separate files."""

    @staticmethod
    def files_with(pattern):
        folder = pathlib.Path(__file__).resolve().parents[2] / "src"
        return sorted(path.name for path in folder.glob("*/*.[ch]")
                      if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))

    # S1.3: what starts the reactor, its loop, and the states of tasks
    def test_reactor_start_loop_and_task_states_are_in_separate_files(self):
        self.assertEqual(self.files_with(r"policy->open\(runtime\)"), ["runtime.c"])
        self.assertEqual(self.files_with(r"^struct wf_reactor \{"), ["reactor.c"])
        self.assertEqual(self.files_with(r"\bcontrol_main\b"), ["reactor.c"])
        self.assertEqual(self.files_with(r"^bool wf_state_park\([^;{]*\)\n\{"), ["state.c"])
        self.assertNotIn("state.c", self.files_with(r"\bwf_reactor|\bwf_policy|->policy\b"))


if __name__ == "__main__":
    tap.main()
