#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the files that `make install` copies suffice: programs in C and C++ find the library through
        pkg-config or CMake, also after the installation was moved.
Method: each test installs into a folder, moves the folder, and builds the program of the README
        against it.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WEFT_TEST_BUILD", os.path.join(ROOT, "build", "dev"))
HELLO = os.path.join(ROOT, "examples", "hello.c")
OUTPUT = "10000 tasks have slept for a second\n"
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(weft 0.1 REQUIRED)
add_executable(hello {hello})
target_link_libraries(hello PRIVATE weft::{target})
"""
SUBPROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
add_subdirectory({root} weft)
add_executable(hello {hello})
target_link_libraries(hello PRIVATE weft::weft)
if(DEFINED CMAKE_BUILD_TYPE AND NOT CMAKE_BUILD_TYPE STREQUAL "")
  message(FATAL_ERROR "the sub-project has set CMAKE_BUILD_TYPE")
endif()
"""
LOADER = """#include <dlfcn.h>
#include <stdio.h>
#include <weft/types.h>
static intptr_t task(void *arg)
{
    return 42 + (arg != NULL);
}
int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\\n", dlerror());
        return 1;
    }
    intptr_t (*run)(weft_fn fn, void *arg, const void *options) =
        (intptr_t (*)(weft_fn, void *, const void *))dlsym(library, "weft_run");
    printf("%d\\n", (int)run(task, NULL, NULL));
    return 0;
}
"""
PLUGIN = """#include <weft/weft.h>
static intptr_t task(void *arg)
{
    return weft_sleep(1) + (arg != NULL);
}
intptr_t plugin_run(void)
{
    return weft_run(task, NULL, NULL);
}
"""


def needs(*commands):
    missing = [command for command in commands if shutil.which(command) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.prefix = os.path.join(self.root, "moved")
        first = os.path.join(self.root, "first")
        self.call("cmake", "--install", BUILD, "--prefix", first)
        os.rename(first, self.prefix)

    def call(self, *args, **environment):
        end = subprocess.run(args, cwd=self.root, env={**os.environ, **environment}, timeout=300,
                             capture_output=True, text=True, check=False)
        self.assertEqual(end.returncode, 0, f"{args}\n{end.stdout}{end.stderr}")
        return end.stdout

    def installed(self):
        return {os.path.relpath(os.path.join(folder, name), self.prefix)
                for folder, _, names in os.walk(self.prefix) for name in names}

    def flags(self, *wanted):
        """The output of pkg-config for the installation; finds weft.pc in any folder."""
        [file] = [path for path in self.installed() if path.endswith("/weft.pc")]
        path = os.path.join(self.prefix, os.path.dirname(file))
        return self.call("pkg-config", *wanted, "weft", PKG_CONFIG_PATH=path).split()

    def shared(self):
        """The environment in which a program finds the installed shared library."""
        return {"LD_LIBRARY_PATH": os.path.join(self.prefix, self.libdir())}

    def libdir(self):
        [archive] = [path for path in self.installed() if path.endswith("/libweft.a")]
        return os.path.dirname(archive)

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as stream:
            stream.write(text)

    def test_install_copies_public_headers_and_library_only(self):
        headers = {f"include/weft/{name}"
                   for name in os.listdir(os.path.join(ROOT, "include", "weft"))}
        installed = self.installed()
        self.assertEqual({path for path in installed if path.endswith(".h")}, headers)
        self.assertEqual({os.path.basename(path) for path in installed if "/libweft." in path},
                         {"libweft.a", "libweft.so", "libweft.so.0", "libweft.so.0.1.0"})

    @needs("nm")
    def test_shared_library_exports_public_names_only(self):
        library = os.path.join(self.prefix, self.libdir(), "libweft.so")
        lines = self.call("nm", "-D", "--defined-only", library).splitlines()
        names = [line.split()[2].split("@")[0] for line in lines]
        self.assertIn("weft_run", names)
        self.assertEqual([name for name in names if not name.startswith("weft_")], ["WEFT_0"])

    @needs("cc")
    def test_shared_library_can_be_loaded_by_dlopen(self):
        self.write("load.c", LOADER)
        self.call("cc", "-I", os.path.join(self.prefix, "include"), "load.c", "-o", "load")
        self.assertEqual(self.call("./load", os.path.join(self.prefix, self.libdir(),
                                                          "libweft.so.0")), "42\n")

    @needs("cc", "nm")
    def test_archive_in_a_shared_object_exports_nothing(self):
        self.write("plugin.c", PLUGIN)
        self.call("cc", "-shared", "-fPIC", *self.flags("--cflags"), "plugin.c",
                  os.path.join(self.prefix, self.libdir(), "libweft.a"),
                  *[flag for flag in self.flags("--libs", "--static") if flag != "-lweft"],
                  "-o", "plugin.so")
        names = self.call("nm", "-D", "--defined-only", "plugin.so")
        self.assertIn("plugin_run", names)
        self.assertNotIn("weft_", names)

    @needs("cc", "pkg-config")
    def test_archive_is_linked_with_static_flags(self):
        archive = os.path.join(self.prefix, self.libdir(), "libweft.a")
        flags = [archive if flag == "-lweft" else flag
                 for flag in self.flags("--cflags", "--libs", "--static")]
        source = os.path.join(ROOT, "examples", "echo.c") # needs all libraries that I/O links
        self.call("cc", source, *flags, "-o", "echo")
        self.assertIn("1000 came back", self.call("./echo"))

    @needs("cc", "pkg-config")
    def test_pkg_config_builds_a_c_program(self):
        self.call("cc", HELLO, *self.flags("--cflags", "--libs"), "-o", "hello")
        self.assertEqual(self.call("./hello", **self.shared()), OUTPUT)

    @needs("cc", "pkg-config")
    def test_pkg_config_builds_a_program_with_io(self):
        source = os.path.join(ROOT, "examples", "echo.c") # needs all libraries that I/O links
        self.call("cc", source, *self.flags("--cflags", "--libs"), "-o", "echo")
        self.assertIn("1000 came back", self.call("./echo", **self.shared()))

    @needs("c++", "pkg-config")
    def test_pkg_config_builds_a_cxx_program(self):
        self.call("c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++",
                  HELLO, "-x", "none", *self.flags("--cflags", "--libs"), "-o", "hello")
        self.assertEqual(self.call("./hello", **self.shared()), OUTPUT)

    @needs("pkg-config")
    def test_pkg_config_knows_the_version(self):
        with open(os.path.join(ROOT, "include", "weft", "version.h"), encoding="utf-8") as header:
            lines = [line.split() for line in header
                     if re.match(r"#define WEFT_VERSION_[A-Z]+ \d", line)]
        self.assertEqual(self.flags("--modversion"), [".".join(line[2] for line in lines)])

    @needs("cc")
    def test_cmake_project_finds_the_library(self):
        for target in ("weft", "weft_shared"):
            with self.subTest(target):
                self.write("CMakeLists.txt", PROJECT.format(hello=HELLO, target=target))
                self.call("cmake", "-S", ".", "-B", target, f"-DCMAKE_PREFIX_PATH={self.prefix}")
                self.call("cmake", "--build", target)
                self.assertEqual(self.call(f"{target}/hello"), OUTPUT)

    @needs("cc")
    def test_cmake_project_contains_the_sources(self):
        self.write("CMakeLists.txt", SUBPROJECT.format(root=ROOT, hello=HELLO))
        self.call("cmake", "-S", ".", "-B", "build")
        self.call("cmake", "--build", "build", "--parallel", "2")
        self.assertEqual(self.call("build/hello"), OUTPUT)
        targets = self.call("cmake", "--build", "build", "--target", "help")
        self.assertNotIn("test_", targets)
        self.assertNotIn("weft_example", targets)


if __name__ == "__main__":
    tap.main()
