#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the files that `make install` copies suffice: programs in C and C++ find the library through
        pkg-config or CMake, also after the installation was moved.
Method: each test installs into a folder, moves the folder, and builds the program of the README
        against it.
"""
import os
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
target_link_libraries(hello PRIVATE weft::weft)
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

    def test_install_copies_public_headers_and_library_only(self):
        headers = {f"include/weft/{name}"
                   for name in os.listdir(os.path.join(ROOT, "include", "weft"))}
        installed = self.installed()
        self.assertEqual({path for path in installed if path.endswith(".h")}, headers)
        self.assertEqual([os.path.basename(path) for path in installed if path.endswith(".a")],
                         ["libweft.a"])

    @needs("cc", "pkg-config")
    def test_pkg_config_builds_a_c_program(self):
        self.call("cc", HELLO, *self.flags("--cflags", "--libs"), "-o", "hello")
        self.assertEqual(self.call("./hello"), OUTPUT)

    @needs("cc", "pkg-config")
    def test_pkg_config_builds_a_program_with_io(self):
        source = os.path.join(ROOT, "examples", "echo.c") # needs all libraries that I/O links
        self.call("cc", source, *self.flags("--cflags", "--libs"), "-o", "echo")

    @needs("c++", "pkg-config")
    def test_pkg_config_builds_a_cxx_program(self):
        self.call("c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c++",
                  HELLO, "-x", "none", *self.flags("--cflags", "--libs"), "-o", "hello")
        self.assertEqual(self.call("./hello"), OUTPUT)

    @needs("pkg-config")
    def test_pkg_config_knows_the_version(self):
        with open(os.path.join(ROOT, "include", "weft", "weft.h"), encoding="utf-8") as header:
            lines = [line.split() for line in header if line.startswith("#define WEFT_VERSION_")]
        self.assertEqual(self.flags("--modversion"), [".".join(line[2] for line in lines)])

    @needs("cc")
    def test_cmake_project_finds_the_library(self):
        with open(os.path.join(self.root, "CMakeLists.txt"), "w", encoding="utf-8") as project:
            project.write(PROJECT.format(hello=HELLO))
        self.call("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.call("cmake", "--build", "build")
        self.assertEqual(self.call("build/hello"), OUTPUT)


if __name__ == "__main__":
    tap.main()
