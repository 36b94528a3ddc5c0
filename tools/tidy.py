#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The house rules that a machine can check.

    tools/tidy.py [ROOT]      ROOT: the tree to look at; else the one this file is in

Prints `file:line: what` for each breach and exits 1, or one line of summary and exits 0.
CONTRIBUTING.md gives the rules and their reasons.  A line that speaks of something still to come
carries the words `tidy: future` (in Markdown inside a comment); once nothing on such a line is
missing any more, the words themselves are a breach.

Each rule is a generator over a Tree; RULES at the end lists them.
"""
import fnmatch
import os
import posixpath
import re
import sys
from typing import NamedTuple

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 69
COLUMNS_MAX = 100

SOURCE_FOLDERS = ("src", "include", "tests", "bench", "examples", "tools")
SOURCE_ENDINGS = (".c", ".h", ".S", ".py", ".sh")
TOP_FOLDERS = SOURCE_FOLDERS + ("docs", "cmake", ".ci")
NOT_OURS = (".git", "build", "target", "__pycache__")

ATOMICS = "src/base/atomic.h"
MODEL_ATOMICS = "tests/model/model_atomic.h"
# Headers that a layer may have beside the one of its own name.
EXTRA_HEADERS = {"base": ("atomic.h", "config.h"),
                 "os": ("sys.h",),
                 "sched": ("alone.h", "blocking.h", "driver.h", "fast.h", "fork.h", "idle.h",
                           "monitor.h", "poll.h", "state.h", "timers.h"),
                 "sync": ("chan.h", "future.h", "source.h", "spin.h")}
# The seam through which the model replaces the atomics; it points out of src on purpose.
SEAM = (ATOMICS, "model/model_atomic.h")


class Finding(NamedTuple):
    path: str
    line: int
    what: str
    is_fatal: bool = True


class File:
    """A text with its comments and its code apart; both keep the line numbers of the whole."""

    C_PARTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    HASH_PARTS = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.M)

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.folder = posixpath.dirname(path)
        self.is_c = path.endswith((".c", ".h", ".S"))
        self.code = self._only(is_comment=False)
        self.comments = self._only(is_comment=True)

    def _only(self, is_comment):
        parts = self.C_PARTS if self.is_c else self.HASH_PARTS
        result, end = [], 0
        for match in parts.finditer(self.text):
            is_match_comment = match.group()[0] in "/#"
            result.append(blank(self.text[end:match.start()], is_comment))
            result.append(blank(match.group(), is_match_comment != is_comment))
            end = match.end()
        result.append(blank(self.text[end:], is_comment))
        return "".join(result)


def blank(text, is_blanked):
    return re.sub(r"[^\n]", " ", text) if is_blanked else text


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    def __init__(self, root):
        self.root = root
        self.paths = set()
        self.folders = set()  # those with files in them: git knows no others
        for folder, names, file_names in os.walk(root):
            names[:] = [name for name in names if name not in NOT_OURS]
            inside = posixpath.relpath(folder, root)
            for name in file_names:
                path = posixpath.normpath(posixpath.join(inside, name))
                self.paths.add(path)
                while path := posixpath.dirname(path):
                    self.folders.add(path)
        self.names = {posixpath.basename(path) for path in self.paths}
        self._files = {}

    def file(self, path):
        if path not in self._files:
            with open(os.path.join(self.root, path), encoding="utf-8") as stream:
                self._files[path] = File(path, stream.read())
        return self._files[path]

    def under(self, *folders, endings=SOURCE_ENDINGS):
        prefixes = tuple(folder + "/" for folder in folders)
        for path in sorted(self.paths):
            if path.startswith(prefixes) and path.endswith(endings):
                yield self.file(path)

    def build_files(self):
        for path in sorted(self.paths):
            if path.endswith((".cmake", "CMakeLists.txt", "/build.sh")):
                yield self.file(path)

    def layers(self):
        """The names in src/LAYERS with their lines, bottom first."""
        if "src/LAYERS" not in self.paths:
            return {}
        lines = self.file("src/LAYERS").code.splitlines()
        return {name.strip(): number for number, name in enumerate(lines, 1) if name.strip()}


# ---- layers and headers ------------------------------------------------------------------------

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([\"<])([^\">]+)", re.M)


def includes(file):
    for match in INCLUDE.finditer(file.code):
        yield line_of(file.code, match.start()), match.group(1) == '"', match.group(2)


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def check_layer_list(tree):
    layers = tree.layers()
    folders = {path[4:] for path in tree.folders if re.fullmatch(r"src/[^/]+", path)}
    for folder in sorted(folders - set(layers)):
        yield Finding("src/LAYERS", 1, f"src/{folder} is not listed")
    for layer in layers:
        if layer not in folders:
            yield Finding("src/LAYERS", layers[layer], f"there is no folder src/{layer}")


def check_private_headers(tree):
    for layer, line in tree.layers().items():
        folder = f"src/{layer}"
        own = f"{folder}/{layer}.h"
        if folder in tree.folders and own not in tree.paths:
            yield Finding("src/LAYERS", line, f"layer {layer} lacks its header {own}")
        for header in tree.under(folder, endings=(".h",)):
            name = header.path[len(folder) + 1:]
            if header.path != own and name not in EXTRA_HEADERS.get(layer, ()):
                yield Finding(header.path, 1, f"a layer has one header, {own}")


def include_fault(tree, file, order, is_quoted, target):
    """What is wrong with one include of a file in src, or None."""
    if (file.path, target) == SEAM:
        return None
    if not is_quoted:
        return f'write "{target}": it is ours' if f"src/{target}" in tree.paths else None
    if target.startswith("weft/"):
        return None if f"include/{target}" in tree.paths else f"there is no include/{target}"
    if "/" not in target:
        return f'include "{target}" by its full path from src'
    if f"src/{target}" not in tree.paths:
        return f"there is no src/{target}"
    own, other = layer_of(file.path), target.split("/")[0]
    if own in order and other in order and order.index(other) > order.index(own):
        return f"layer {own} may not include {target}: {other} comes later in src/LAYERS"
    return None


def check_includes(tree):
    order = list(tree.layers())
    for file in tree.under("src", endings=(".c", ".h", ".S")):
        for line, is_quoted, target in includes(file):
            what = include_fault(tree, file, order, is_quoted, target)
            if what:
                yield Finding(file.path, line, what)
    for file in tree.under("include", endings=(".h",)):
        for line, is_quoted, target in includes(file):
            is_ours = is_quoted or target.split("/")[0] in order
            if is_ours and not target.startswith("weft/"):
                yield Finding(file.path, line, f'a public header may not include "{target}"')
            elif target.startswith("weft/") and f"include/{target}" not in tree.paths:
                yield Finding(file.path, line, f"there is no include/{target}")


def guard_of(path):
    """The guard that a header must have; elsewhere than in src and include its ending."""
    stem = re.sub(r"\W", "_", posixpath.basename(path)).upper()
    if layer_of(path):
        return f"WF_{layer_of(path).upper()}_{stem}"
    return f"WEFT_{stem}" if path.startswith("include/") else stem


def check_guards(tree):
    for file in tree.under("src", "include", "tests", "bench", "examples", endings=(".h",)):
        guard = guard_of(file.path)
        match = re.match(r"\s*#ifndef (\w+)\n#define \1\n", file.code)
        found = match.group(1) if match else ""
        is_exact = file.path.startswith(("src/", "include/"))
        if not (found == guard if is_exact else found.endswith(guard)):
            yield Finding(file.path, 1, f"the header guard must be {guard}")


def check_licence(tree):
    for file in tree.under(*SOURCE_FOLDERS):
        if not any("SPDX-License-Identifier: MIT" in line for line in file.lines[:2]):
            yield Finding(file.path, 1, "no SPDX line on top")


# ---- sizes -------------------------------------------------------------------------------------

# Function bodies stand between braces in the first column; clang-format puts no others there.
BODY = re.compile(r"^\{\n(?:.*\n)*?\}", re.M)


def check_sizes(tree):
    for file in tree.under(*SOURCE_FOLDERS):
        if len(file.lines) > FILE_LINES_MAX:
            yield Finding(file.path, FILE_LINES_MAX + 1,
                          f"{len(file.lines)} lines; a file has at most {FILE_LINES_MAX}")
        for number, line in enumerate(file.lines, 1):
            if len(line.expandtabs(8)) > COLUMNS_MAX:
                yield Finding(file.path, number, f"wider than {COLUMNS_MAX} columns")
    for file in tree.under(*SOURCE_FOLDERS, endings=(".c", ".h")):
        yield from check_functions(file)


def check_functions(file):
    for match in BODY.finditer(file.code):
        # The signature begins after what ended before it: a blank line, `}`, `;` or a directive.
        before = file.code[:match.start()].split("\n")[:-1]
        first = len(before)
        while first > 0 and not re.match(r"^\s*$|^#|.*[;}\\]$", before[first - 1]):
            first -= 1
        signature = " ".join(before[first:])
        length = len(before) - first + match.group().count("\n") + 1
        names = [name for name in re.findall(r"(\w+)\s*\(", signature) if name != "__attribute__"]
        if names and length > FUNCTION_LINES_MAX:
            yield Finding(file.path, first + 1,
                          f"{names[0]} has {length} lines; a function has fewer than "
                          f"{FUNCTION_LINES_MAX + 1}")


# ---- memory orders -----------------------------------------------------------------------------

RAW_ATOMIC = re.compile(
    r"\bmemory_order_\w*|\b__atomic_\w*|\b__sync_\w*|\batomic_thread_fence\b|<stdatomic\.h>|"
    r"\b_Atomic\b")


def check_memory_orders(tree):
    for file in tree.under("src", "tests", "bench", "examples", endings=(".c", ".h")):
        is_strict = file.path.startswith("src/") or file.path == MODEL_ATOMICS
        for match in RAW_ATOMIC.finditer(file.code if file.path != ATOMICS else ""):
            yield Finding(file.path, line_of(file.code, match.start()),
                          f"{match.group()}: atomics only through base/atomic.h", is_strict)


# The model checker shows everything that C11 allows of SC fences, but not of SC accesses, so a
# proof in it would say too little.  The fault points are no protocol.
SC_ACCESS = re.compile(r"\bwf_(?:load|store|exchange|cas|fetch_\w+?)_seq_cst\b")
SC_ALLOWED = (ATOMICS, "src/base/assert.c")


def check_sc_accesses(tree):
    for file in tree.under("src", endings=(".c", ".h")):
        for match in SC_ACCESS.finditer(file.code if file.path not in SC_ALLOWED else ""):
            yield Finding(file.path, line_of(file.code, match.start()),
                          f"{match.group()}: order by wf_fence_seq_cst, which the model covers")


# ---- words and marks ---------------------------------------------------------------------------


def check_words(tree):
    for file in tree.under("src", "include"):
        for match in re.finditer(r"\b(?:TODO|FIXME|XXX|HACK)\b", file.text):
            yield Finding(file.path, line_of(file.text, match.start()),
                          f"{match.group()}: finish it, or write an issue")


MARK = re.compile(r"(?<!#define )\bWF_REACHED\(\s*([^)\n]*?)\s*\)")


def check_marks(tree):
    places = {}
    for file in tree.under("src", endings=(".c", ".h")):
        stem = posixpath.basename(file.path).split(".")[0]
        for match in MARK.finditer(file.code):
            name, line = match.group(1), line_of(file.code, match.start())
            if not re.fullmatch(rf'"(?:{layer_of(file.path)}|{stem})(?:\.[a-z0-9_]+)+"', name):
                yield Finding(file.path, line, f'mark {name} must be of the form "{stem}.what"')
            if name in places:
                yield Finding(file.path, line, f"mark {name} stands already at {places[name]}")
            places.setdefault(name, f"{file.path}:{line}")


# ---- explicit lists ----------------------------------------------------------------------------


def check_lists(tree):
    listed = set()
    for file in tree.build_files():
        for match in re.finditer(r"\bGLOB(?:_RECURSE)?\b", file.code):
            yield Finding(file.path, line_of(file.code, match.start()), "name the files: no GLOB")
        for word in re.split(r"[\s()\";]+", file.code):
            word = re.sub(r"^\$\{(?:CMAKE|PROJECT)_(?:CURRENT_)?SOURCE_DIR\}/", "", word)
            listed.update((word, posixpath.join(file.folder, word)))
    for file in tree.under("src", "tests", "bench", "examples", endings=(".c", ".S")):
        if file.path not in listed:
            yield Finding(file.path, 1, "named in no list: it is not built")


# ---- names and paths in prose ------------------------------------------------------------------

# What begins with a folder of ours or ends like a source file is a path, but for placeholders
# (`src/<layer>/`), system headers (`<stdio.h>`) and absolute paths.
PATH = re.compile(
    r"(?<![\w/.<>${}~*-])(?:\./)?"
    rf"((?:{'|'.join(map(re.escape, TOP_FOLDERS))})/[\w./*-]*"
    r"|(?:[\w.*-]+/)*[\w.*-]+\.(?:c|h|S|py|sh|md|cmake|def))"
    r"(?![\w/<>{}])")
# A name, or the beginning of some (`wf_ring_*`); not a placeholder (`wf_<noun>_<verb>`).
NAME = re.compile(r"\b((?:weft|wf|WF|WEFT)_\w*)(\*?)(?![\w<{])")


def is_there(tree, token, folder):
    """Does the path exist, seen from the root, src, include, tests or the folder it stands in?"""
    if "/" not in token:
        return token in tree.folders or any(fnmatch.fnmatchcase(n, token) for n in tree.names)
    roots = ("", "src", "include", "tests", folder)
    wanted = [posixpath.normpath(posixpath.join(root, token)) for root in roots]
    everything = tree.paths | tree.folders
    if "*" in token:
        return any(fnmatch.fnmatchcase(path, want) for want in wanted for path in everything)
    return any(want in everything for want in wanted)


def known_names(tree):
    """Every name of ours in code: what is used there is defined there, or it would not build."""
    files = list(tree.under("src", "include", "tests", "bench", "examples",
                            endings=(".c", ".h", ".S", ".sh")))
    files += tree.build_files()
    files += [tree.file(path) for path in ("Makefile", "CMakePresets.json") if path in tree.paths]
    return {name for file in files for name in re.findall(r"\b(?:weft|wf|WF|WEFT)_\w+", file.code)}


def missing_in(tree, names, text, folder):
    """What a line of prose names and the tree does not have."""
    text = re.sub(r"\w+://\S+", "", text)
    for path in PATH.findall(text):
        path = path.rstrip("./")
        if path.split("/")[0] != "build" and not is_there(tree, path, folder):
            yield f"there is no {path}"
    for name, star in NAME.findall(PATH.sub("", text)):
        is_prefix = star or name.endswith("_")
        if name not in names and not (is_prefix and any(n.startswith(name) for n in names)):
            yield f"there is no {name}{star}"


def prose_lines(file):
    """The lines of a document that speak of the tree, and whether each is a command or code.

    Output of a command is left out: a fence marked `text`, and in one with `$ ` prompts all other
    lines."""
    fence, has_prompt = None, False
    for number, line in enumerate(file.lines, 1):
        match = re.match(r"\s*```(\w*)", line)
        if match and fence is None:
            fence = match.group(1)
            block = "\n".join(file.lines[number:]).split("```")[0]
            has_prompt = re.search(r"^\$ ", block, re.M) is not None
        elif match:
            fence = None
        elif fence is None:
            yield number, line, False
        elif fence != "text" and (not has_prompt or line.startswith("$ ")):
            yield number, line, True


def make_targets(line, is_code):
    commands = [line] if is_code else re.findall(r"`([^`]*)`", line)
    for command in commands:
        match = re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*make((?: [^&|;#]*)?)", command)
        for word in match.group(1).split() if match else ():
            if re.fullmatch(r"[a-z][a-z0-9-]*", word):
                yield word


def judged(file, number, line, missing):
    """Findings of one line, with respect for the words that announce the future."""
    missing = list(dict.fromkeys(missing))
    if "tidy: future" not in re.sub(r"`[^`]*`", "", line):  # quoted, the words are only talked of
        return [Finding(file.path, number, what) for what in missing]
    if missing:
        return []
    return [Finding(file.path, number, "nothing here is to come any more: drop `tidy: future`")]


def check_documents(tree):
    names = known_names(tree)
    makefile = tree.file("Makefile").text if "Makefile" in tree.paths else ""
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.M))
    paths = [path for path in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
             if path in tree.paths]
    for file in [tree.file(path) for path in paths] + list(tree.under("docs", endings=(".md",))):
        for number, line, is_code in prose_lines(file):
            missing = list(missing_in(tree, names, line, file.folder))
            missing += [f"there is no target `make {word}`"
                        for word in make_targets(line, is_code) if word not in targets]
            yield from judged(file, number, line, missing)


def check_comments(tree):
    """Comments name files and functions too, and these move."""
    names = known_names(tree)
    files = list(tree.under(*SOURCE_FOLDERS, endings=(".c", ".h", ".S", ".sh", "LAYERS")))
    files += tree.build_files()
    files += [tree.file(path) for path in ("Makefile",) if path in tree.paths]
    for file in files:
        for number, line in enumerate(file.comments.splitlines(), 1):
            yield from judged(file, number, line, missing_in(tree, names, line, file.folder))


RULES = (
    check_layer_list, check_private_headers, check_includes, check_guards, check_licence,
    check_sizes, check_memory_orders, check_sc_accesses, check_words, check_marks, check_lists,
    check_documents, check_comments,
)


def findings_in(root):
    tree = Tree(root)
    return sorted({finding for rule in RULES for finding in rule(tree)})


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(__file__)) or "."
    findings = findings_in(root)
    for finding in findings:
        kind = "" if finding.is_fatal else "warning: "
        print(f"{finding.path}:{finding.line}: {kind}{finding.what}")
    if any(finding.is_fatal for finding in findings):
        return 1
    print(f"tidy: {len(RULES)} rules kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
