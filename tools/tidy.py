#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the project rules that a tool can check.

    tools/tidy.py [ROOT]      ROOT: the source tree; default: the tree of this file

Prints `file:line: what` for each violation and exits with 1, or prints a summary line and exits
with 0.  CONTRIBUTING.md gives the rules and their reasons.  A line that names something that does
not exist yet contains the words `tidy: future` (in Markdown inside a comment).  If everything that
such a line names exists, the words are a violation.

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
# The include by which the model checker replaces the atomics.  It names a file outside of src.
SEAM = (ATOMICS, "model/model_atomic.h")


class Finding(NamedTuple):
    path: str
    line: int
    what: str
    is_fatal: bool = True


class File:
    """A text, split into its comments and its code; both keep the line numbers of the text."""

    C_PARTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    HASH_PARTS = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.M)

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.folder = posixpath.dirname(path)
        self.is_c = path.endswith((".c", ".h", ".S"))
        self.code, self.comments = self._parts()

    def _parts(self):
        code, comments, end = [], [], 0
        for match in (self.C_PARTS if self.is_c else self.HASH_PARTS).finditer(self.text):
            if match.group()[0] in "/#":
                between = self.text[end:match.start()]
                code += [between, blank(match.group(), True)]
                comments += [blank(between, True), match.group()]
                end = match.end()
        code.append(self.text[end:])
        comments.append(blank(self.text[end:], True))
        return "".join(code), "".join(comments)


def blank(text, is_blanked):
    return "\n".join(" " * len(line) for line in text.split("\n")) if is_blanked else text


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tree:
    def __init__(self, root):
        self.root = root
        self.paths = set()
        self.folders = set()  # only folders that contain files, as in git
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
        """The names in src/LAYERS with their line numbers, lowest layer first."""
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


def include_fault(tree, file, order, is_quoted, target):
    """The fault of one include of a file in src, or None."""
    if (file.path, target) == SEAM:
        return None
    if not is_quoted:
        return f'write "{target}": it is a header of src' if f"src/{target}" in tree.paths else None
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
    """The guard that a header must have; outside of src and include, the end of the guard."""
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
            yield Finding(file.path, 1, "the file must begin with an SPDX line")


# ---- sizes -------------------------------------------------------------------------------------

# clang-format puts the braces of function bodies in the first column, and no other braces.
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


def functions(file):
    """Line, signature and length of each function."""
    for match in BODY.finditer(file.code):
        # The signature begins after a blank line, `}`, `;` or a directive.
        before = file.code[:match.start()].split("\n")[:-1]
        first = len(before)
        while first > 0 and not re.match(r"^\s*$|^#|.*[;}\\]$", before[first - 1]):
            first -= 1
        yield (first + 1, " ".join(before[first:]),
               len(before) - first + match.group().count("\n") + 1)


def function_name(signature):
    names = [name for name in re.findall(r"(\w+)\s*\(", signature)
             if name not in ("__attribute__", "format", "aligned", "section")]
    return names[0] if names else None


def check_functions(file):
    for line, signature, length in functions(file):
        name = function_name(signature)
        if name and length > FUNCTION_LINES_MAX:
            yield Finding(file.path, line,
                          f"{name} has {length} lines; a function has fewer than "
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


# The model checker covers all behaviours that C11 allows for SC fences, but not for SC accesses, so
# it would miss executions.  The fault points in assert.c are not part of a protocol.
SC_ACCESS = re.compile(r"\bwf_(?:load|store|exchange|cas|fetch_\w+?)_seq_cst\b")
SC_ALLOWED = (ATOMICS, "src/base/assert.c")


def check_sc_accesses(tree):
    for file in tree.under("src", endings=(".c", ".h")):
        for match in SC_ACCESS.finditer(file.code if file.path not in SC_ALLOWED else ""):
            yield Finding(file.path, line_of(file.code, match.start()),
                          f"{match.group()}: use wf_fence_seq_cst, which the model checker covers")


# ---- words and marks ---------------------------------------------------------------------------


def check_words(tree):
    for file in tree.under("src", "include"):
        for match in re.finditer(r"\b(?:TODO|FIXME|XXX|HACK)\b", file.text):
            yield Finding(file.path, line_of(file.text, match.start()),
                          f"{match.group()}: finish it, or write an issue")


# Sentences name their actor: the owner, the thief, the caller.  These words hide it.
HIDDEN_ACTOR = re.compile(
    r"(?<![A-Za-z0-9])(nobody|somebody|anybody|everybody|whoever|someone|anyone|everyone|who"
    r"|no(?:_|-|\s+(?:\*\s+)?)one(?!-)"
    r"|those(?:_|-|\s+(?:\*\s+)?)who|the(?:_|-|\s+(?:\*\s+)?)one(?:_|-|\s+(?:\*\s+)?)(?:that|who))"
    r"(?![A-Za-z0-9])", re.I)
STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"")
TEST_NAME = re.compile(r"\bTAP_TEST(?:_LIMIT)?\(\s*(\w+)")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")


def only(pattern, text):
    """The text with everything blanked that the pattern does not match; the lines stay."""
    result, end = [], 0
    for match in pattern.finditer(text):
        result += [blank(text[end:match.start()], True), match.group()]
        end = match.end()
    return "".join(result) + blank(text[end:], True)


def worded(tree):
    """The texts that have to name the actor: (path, text)."""
    for file in tree.under("src", "include", endings=(".c", ".h", ".S")):
        yield file.path, file.text  # identifiers too
    for file in tree.under("examples", "bench", endings=(".c", ".h")):
        yield file.path, file.comments
        yield file.path, only(STRING, file.code)
    for file in tree.under("tests", endings=(".c", ".h")):
        yield file.path, only(TEST_NAME, file.code)
    documents = [tree.file(path) for path in DOCUMENTS if path in tree.paths]
    documents += tree.under("docs", "bench", "examples", endings=(".md",))
    for file in documents:
        quoted = re.compile(r"^\s*```.*?^\s*```|`[^`\n]*`", re.M | re.S)
        yield file.path, quoted.sub(lambda match: blank(match.group(), True), file.text)
    for path in sorted(tree.paths):
        if path.startswith("docs/"):
            yield path, posixpath.basename(path)


def check_actors(tree):
    for path, text in worded(tree):
        for match in HIDDEN_ACTOR.finditer(text):
            words = re.sub(r"[\s*_-]+", " ", match.group())
            yield Finding(path, line_of(text, match.start()),
                          f'"{words}": name the actor (docs/glossary.md)')


# ---- edges -------------------------------------------------------------------------------------

# An edge is declared in the table of its layer's header and named on both sides.
# Rows may be in groups: an empty line goes on with the table if a row follows.
EDGE_TABLE = re.compile(r"^ \*[ ]+edge[ ]+from\b.*\n"
                        r"((?:^ \*(?:[ ]{2,}.*|(?=\n \*[ ]{2,}[a-z]+\.[A-Z]\d))\n)*)", re.M)
EDGE_ROW = re.compile(r"^ \*[ ]{2,}([a-z]+\.[A-Z]\d+)[ ]", re.M)
EDGE_USES_MIN = 2


def edge_tables(tree, findings):
    """The declared edges with their places; other findings are appended."""
    declared = {}
    for file in tree.under("src", endings=(".c", ".h")):
        for table in EDGE_TABLE.finditer(file.comments):
            for row in EDGE_ROW.finditer(table.group(1)):
                label, line = row.group(1), line_of(file.comments, table.start(1) + row.start())
                if label in declared:
                    findings.append(Finding(file.path, line, f"edge {label} is declared already at "
                                            f"{declared[label][0]}:{declared[label][1]}"))
                elif label.split(".")[0] != layer_of(file.path):
                    findings.append(Finding(file.path, line, f"edge {label} belongs to the header "
                                            f"of layer {label.split('.')[0]}"))
                declared.setdefault(label, (file.path, line))
    return declared


def check_edges(tree):
    findings = []
    declared = edge_tables(tree, findings)
    uses = dict.fromkeys(declared, 0)
    layers = "|".join(tree.layers()) or "-"
    label = re.compile(rf"(?<![\w.])(?:{layers})\.[A-Z]\d+(?![\w.])")
    several = re.compile(rf"\((?:{label.pattern})(?:,\s+(?:\*\s+)?{label.pattern})*\)")
    for file in tree.under("src", endings=(".c", ".h", ".S")):
        text = EDGE_TABLE.sub(lambda match: blank(match.group(), True), file.comments)
        written = only(several, text)
        for match in label.finditer(text):
            name, line = match.group(), line_of(text, match.start())
            if not written.startswith(name, match.start()):
                findings.append(Finding(file.path, line, f"write the edge as ({name})"))
            elif name not in declared:
                findings.append(Finding(file.path, line, f"edge {name} is declared in no table"))
            else:
                uses[name] += 1
    for name, count in uses.items():
        if count < EDGE_USES_MIN:
            findings.append(Finding(*declared[name], f"edge {name} is named {count} times in code; "
                                    "both of its sides have to name it"))
    yield from findings


# ---- names of static functions -----------------------------------------------------------------


def check_statics(tree):
    """A backtrace, a profile and a search show the bare name: it has to be the only one."""
    places = {}
    for file in tree.under("src", endings=(".c", ".h")):
        for line, signature, _ in functions(file):
            name = function_name(signature)
            if not name or not re.match(r"(?:\w+ )*?static\b", signature):
                continue
            first = places.setdefault(name, (file.path, line))
            if first[0] != file.path:  # twice in one file: under #if and #else
                yield Finding(file.path, line, f"static {name} is also in {first[0]}:{first[1]}")


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
                yield Finding(file.path, line, f"mark {name} is already in use at {places[name]}")
            places.setdefault(name, f"{file.path}:{line}")


# ---- explicit lists ----------------------------------------------------------------------------


def check_lists(tree):
    listed = set()
    for file in tree.build_files():
        for match in re.finditer(r"\bGLOB(?:_RECURSE)?\b", file.code):
            yield Finding(file.path, line_of(file.code, match.start()), "list the files: no GLOB")
        for word in re.split(r"[\s()\";]+", file.code):
            word = re.sub(r"^\$\{(?:CMAKE|PROJECT)_(?:CURRENT_)?SOURCE_DIR\}/", "", word)
            listed.update((word, posixpath.join(file.folder, word)))
    for file in tree.under("src", "tests", "bench", "examples", endings=(".c", ".S")):
        if file.path not in listed:
            yield Finding(file.path, 1, "in no source list, so it is not built")


# ---- names and paths in prose ------------------------------------------------------------------

# A path begins with a top-level folder or ends like a source file.  Placeholders (`src/<layer>/`),
# system headers (`<stdio.h>`) and absolute paths are not checked.
PATH = re.compile(
    r"(?<![\w/.<>${}~*-])(?:\./)?"
    rf"((?:{'|'.join(map(re.escape, TOP_FOLDERS))})/[\w./*-]*"
    r"|(?:[\w.*-]+/)*[\w.*-]+\.(?:c|h|S|py|sh|md|cmake|def))"
    r"(?![\w/<>{}])")
# A name, or a prefix (`wf_ring_*`); not a placeholder (`wf_<noun>_<verb>`).
NAME = re.compile(r"\b((?:weft|wf|WF|WEFT)_\w*)(\*?)(?![\w<{])")


def is_there(tree, token, folder):
    """Whether the path exists relative to the root, src, include, tests or the file's folder."""
    if "/" not in token:
        return token in tree.folders or any(fnmatch.fnmatchcase(n, token) for n in tree.names)
    roots = ("", "src", "include", "tests", folder)
    wanted = [posixpath.normpath(posixpath.join(root, token)) for root in roots]
    known = tree.paths | tree.folders
    if "*" in token:
        return any(fnmatch.fnmatchcase(path, want) for want in wanted for path in known)
    return any(want in known for want in wanted)


def files_called(tree, token, folder):
    """The files that a path in prose may mean; none for folders and patterns."""
    if "/" not in token:
        near = posixpath.join(folder, token)
        return [near] if near in tree.paths else [path for path in sorted(tree.paths)
                                                  if posixpath.basename(path) == token]
    roots = ("", "src", "include", "tests", folder)
    wanted = [posixpath.normpath(posixpath.join(root, token)) for root in roots]
    return [path for path in wanted if path in tree.paths]


# "`name` in `path`", "`name` (`path`)" and "`path` (`name`)": the file has to contain the name.
FILE_TOKEN = r"[\w./-]*\w\.(?:c|h|S|py|sh|cmake)"
SYMBOL = r"(?:(?:struct|enum|union) )?(?P<name>[A-Za-z_]\w*)(?:\(\))?"
DOCUMENT_PLACES = (
    re.compile(rf"`{SYMBOL}` (?:in |\(|\(in )`(?P<path>{FILE_TOKEN})`"),
    re.compile(rf"`(?P<path>{FILE_TOKEN})` \(`{SYMBOL}`\)"),
)
# In a comment nothing is quoted, so only names with a `_` are taken for names.
COMMENT_PLACES = (
    re.compile(rf"\b(?P<name>\w*[a-z0-9]_\w+)(?:\(\))? (?:in |\(|\(in )(?P<path>{FILE_TOKEN})\b"),
)


def has_word(tree, path, word):
    file = tree.file(path)
    return re.search(rf"\b{re.escape(word)}\b", file.code if file.is_c else file.text) is not None


def misplaced_in(tree, line, folder, places):
    """Names that a line of prose puts into a file that does not contain them."""
    for match in (match for place in places for match in place.finditer(line)):
        name, path = match.group("name"), match.group("path")
        files = files_called(tree, path, folder)
        if files and not any(has_word(tree, file, name) for file in files):
            yield f"{path} does not contain {name}"


def misplaced_in_tables(tree, file):
    """Tables with the columns `function` and `file`: each name occurs in one of the row's files."""
    columns = None
    for number, line in enumerate(file.lines, 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            columns = None
        elif {"function", "file"} <= set(cells):
            columns = cells.index("function"), cells.index("file")
        elif columns and len(cells) > max(columns):
            paths = [path for token in re.findall(rf"`({FILE_TOKEN})`", cells[columns[1]])
                     for path in files_called(tree, token, file.folder)]
            for name in re.findall(rf"`{SYMBOL}`", cells[columns[0]]):
                if paths and not any(has_word(tree, path, name) for path in paths):
                    yield Finding(file.path, number, f"no file of this row contains {name}")


def known_names(tree):
    """Every weft and wf name in the code.  Code that uses an undefined name does not build."""
    files = list(tree.under("src", "include", "tests", "bench", "examples", "tools",
                            endings=(".c", ".h", ".S", ".sh")))
    files += tree.build_files()
    files += [tree.file(path) for path in ("Makefile", "CMakePresets.json") if path in tree.paths]
    return {name for file in files for name in re.findall(r"\b(?:weft|wf|WF|WEFT)_\w+", file.code)}


def missing_in(tree, names, text, folder):
    """The paths and names in a line of prose that the tree does not contain."""
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
    """The lines of a document to check, and whether each is a command or code.

    Skips the output of commands: a fenced block marked `text`, and in a block with `$ ` prompts all
    lines without a prompt."""
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


def line_findings(file, number, line, missing):
    """The findings of one line, which may contain the words `tidy: future`."""
    missing = list(dict.fromkeys(missing))
    if "tidy: future" not in re.sub(r"`[^`]*`", "", line):  # quoted words do not count
        return [Finding(file.path, number, what) for what in missing]
    if missing:
        return []
    return [Finding(file.path, number, "everything on this line exists: remove `tidy: future`")]


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
            if not is_code:
                missing += misplaced_in(tree, line, file.folder, DOCUMENT_PLACES)
            yield from line_findings(file, number, line, missing)
        yield from misplaced_in_tables(tree, file)


def check_comments(tree):
    """Checks the names and paths in comments as in documents."""
    names = known_names(tree)
    files = list(tree.under(*SOURCE_FOLDERS, endings=(".c", ".h", ".S", ".sh", "LAYERS")))
    files += tree.build_files()
    files += [tree.file(path) for path in ("Makefile",) if path in tree.paths]
    for file in files:
        for number, line in enumerate(file.comments.splitlines(), 1):
            if re.search(r"[./_]", line):  # no path and no name without one of these
                missing = list(missing_in(tree, names, line, file.folder))
                missing += misplaced_in(tree, line, file.folder, COMMENT_PLACES)
                yield from line_findings(file, number, line, missing)


# ---- the public interface ----------------------------------------------------------------------

API_STYLE = "docs/api-style.md"
API_FUNCTION = re.compile(r"^(?:WEFT_API|static inline)\b[^;{}()]*?\b(weft_\w+)\(([^;{]*)\)", re.M)
API_ENUM = re.compile(r"\benum (weft_\w+)\s*\{([^}]*)\}")
API_STRUCT = re.compile(r"\bstruct (weft_\w+_options)\s*\{\s*([^;]*);")
# A name that begins something needs the name that ends it.
API_PAIRS = {"new": ("unref", "free"), "open": ("close",), "begin": ("end",), "ref": ("unref",)}


def api_lists(tree):
    """The lists of docs/api-style.md: the name of a list -> its words."""
    lists = {}
    for match in re.finditer(r"^- (system calls|verbs|nouns): ((?:.|\n(?!- |\n))*)",
                             tree.file(API_STYLE).text, re.M):
        lists[match.group(1)] = set(re.findall(r"`(\w+)`", match.group(2)))
    return lists


def api_name_fault(name, lists):
    rest = name[len("weft_"):]
    if rest in lists["system calls"] | lists["verbs"]:
        return None
    noun = next((noun for noun in lists["nouns"] if rest.startswith(noun + "_")), None)
    if not noun:
        return f"{name} begins with no noun of {API_STYLE}, and is no verb there"
    if re.search(r"_try$|\w_try_", rest[len(noun):]):
        return f"{name}: `try` stands before the verb"
    return None


def api_parameter_fault(name, parameters):
    """The output follows the object; no `int` selects what the function does."""
    kinds = [parameter.strip() for parameter in re.sub(r"\([^()]*\)", "", parameters).split(",")]
    for index, parameter in enumerate(kinds):
        if re.search(r"\*out$", parameter) and index > 1:
            return f"{name}: `out` is the first parameter, or follows the object"
        if re.fullmatch(r"int (?:on|is_\w+|has_\w+|run|\w+_only)", parameter):
            return f"{name}: `{parameter}` should be a bool, or two functions"
    return None


def check_api(tree):
    if API_STYLE not in tree.paths:
        return
    lists = api_lists(tree)
    places = {}
    for file in tree.under("include", endings=(".h",)):
        for match in API_FUNCTION.finditer(file.code):
            name, line = match.group(1), line_of(file.code, match.start())
            places[name] = (file.path, line)
            for fault in (api_name_fault(name, lists),
                          api_parameter_fault(name, match.group(2))):
                if fault:
                    yield Finding(file.path, line, fault)
        for match in API_ENUM.finditer(file.code):
            prefix = "WEFT_" + match.group(1).split("_")[1].upper() + "_"
            for value in re.findall(r"\bWEFT_\w+", match.group(2)):
                if not value.startswith(prefix):
                    yield Finding(file.path, line_of(file.code, match.start()),
                                  f"{value} should begin with {prefix}")
        for match in API_STRUCT.finditer(file.code):
            if match.group(2) != "uint32_t size":
                yield Finding(file.path, line_of(file.code, match.start()),
                              f"{match.group(1)} should begin with `uint32_t size`")
    for name, place in sorted(places.items()):
        stem, _, verb = name.rpartition("_")
        ends = API_PAIRS.get(verb, ())
        if ends and not any(f"{stem}_{end}" in places for end in ends):
            yield Finding(*place, f"{name} has no {' or '.join(f'{stem}_{e}' for e in ends)}")


RULES = (
    check_layer_list, check_private_headers, check_includes, check_guards, check_licence,
    check_sizes, check_memory_orders, check_sc_accesses, check_words, check_actors, check_edges,
    check_statics, check_marks, check_lists, check_documents, check_comments, check_api,
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
