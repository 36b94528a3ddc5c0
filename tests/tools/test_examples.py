#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the examples print what their comments say, the program in the README is an example, and the
        demonstration runs to its end.
Method: the first comment of an example contains its output.  Each test runs an example with one
        worker and with several, and compares its output with the comment.
"""
import os
import re
import socket
import subprocess
import tempfile
import threading
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WEFT_TEST_BUILD", os.path.join(ROOT, "build", "dev"))
LINES_MAX = 80
README_LINES_MAX = 35


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        return stream.read()


def documented_output(source):
    """The text after "Prints:" in the first comment."""
    comment = re.search(r"Prints:\n \*\n(.*?) \*/", source, re.S).group(1)
    return "".join(line[len(" *     "):] + "\n" for line in comment.splitlines())


def run(name, *arguments, **environment):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    return subprocess.run([os.path.join(BUILD, name), *arguments], env={**clean, **environment},
                          timeout=300, capture_output=True, text=True, check=False)


class Examples(unittest.TestCase):
    def check(self, name, *arguments, instead=(), lines_max=LINES_MAX):
        """`instead`: pairs of documented text and what replaces it for these arguments."""
        source = read(f"examples/{name}.c")
        self.assertLess(source.count("\n"), lines_max)
        text = documented_output(source)
        for old, new in instead:
            self.assertIn(old, text)
            text = text.replace(old, new)
        for workers in ("1", "2", "5"):
            end = run(name, *arguments, WEFT_WORKERS=workers)
            self.assertEqual((end.returncode, end.stdout, end.stderr), (0, text, ""))

    def test_examples_all_have_a_test(self):
        names = {name[:-2] for name in os.listdir(os.path.join(ROOT, "examples"))
                 if name.endswith(".c")}
        tried = {name[len("test_example_"):] for name in dir(self)
                 if name.startswith("test_example_")}
        self.assertEqual(names, tried | {"demo", "http"})  # test_http.py tests http

    def test_example_cancel(self):
        self.check("cancel")

    def test_example_crowded(self):
        end = run("crowded", "100")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        rows = re.findall(r"^  (alone|beside [a-z0-9 ]+?) +(\d+) +(\d+) +(\d+) +(\d+)$",
                          end.stdout, re.M)
        self.assertEqual(len(rows), 3, end.stdout)
        for _, answered, half, most, longest in rows:
            self.assertGreater(int(answered), 0)
            self.assertTrue(int(half) <= int(most) <= int(longest))

    def test_example_download(self):
        self.check("download", lines_max=2 * LINES_MAX)  # a server and a client

    def test_example_echo(self):
        self.check("echo")

    def test_example_fib(self):
        self.check("fib")

    def test_example_hello(self):
        self.check("hello")

    def test_example_lookup(self):
        self.check("lookup", "127.0.0.1", "::1")
        end = run("lookup", "localhost")
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        self.assertRegex(end.stdout, r"^localhost:( 127\.0\.0\.1| ::1)+\n$")

    def test_example_mandelbrot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "small.ppm")
            self.check("mandelbrot", path, "60",
                       instead=(("mandelbrot.ppm", path), ("1200 x 800", "60 x 40")))
            with open(path, "rb") as stream:
                picture = stream.read()
            head = b"P6\n60 40\n255\n"
            self.assertTrue(picture.startswith(head))
            pixels = picture[len(head):]
            self.assertEqual(len(pixels), 60 * 40 * 3)
            middle = 3 * (20 * 60 + 44)  # 0, in the set; the corner is far outside
            self.assertEqual((pixels[middle], pixels[0]), (0, 1))

    def test_example_nqueens(self):
        self.check("nqueens")

    def test_example_philosophers(self):
        self.check("philosophers")

    def test_example_pool(self):
        self.check("pool")

    def test_example_hog(self):
        self.check("hog")

    def test_example_limiter(self):
        self.check("limiter")

    def test_example_pipeline(self):
        self.check("pipeline")

    def test_example_pipeline_of_children(self):
        self.check("pipeline_of_children")

    def test_example_proxy(self):
        """The server answers after end of file, so the proxy must pass on the end of file."""
        self.assertLess(read("examples/proxy.c").count("\n"), LINES_MAX)
        for workers in ("1", "2", "5"):
            with socket.create_server(("127.0.0.1", 0)) as server:
                target = "127.0.0.1:%d" % server.getsockname()[1]
                with subprocess.Popen([os.path.join(BUILD, "proxy"), "127.0.0.1:0", target],
                                      env={**os.environ, "WEFT_WORKERS": workers},
                                      stdout=subprocess.PIPE, text=True) as proxy:
                    try:
                        self.drive(proxy.stdout.readline(), target, server)
                    finally:
                        proxy.kill()

    def drive(self, line, target, server):
        self.assertRegex(line, rf"^127\.0\.0\.1:\d+ -> {re.escape(target)}\n$")
        port = int(re.search(r":(\d+) ", line).group(1))
        sent = bytes(range(256)) * 4000
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            server.settimeout(60)
            far, _ = server.accept()
            with far:
                far.settimeout(60)
                sender = threading.Thread(
                    target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
                sender.start()
                received = b"".join(iter(lambda: far.recv(65536), b""))
                sender.join()
                self.assertEqual(received, sent)
                far.sendall(b"all of it")
            self.assertEqual(b"".join(iter(lambda: client.recv(65536), b"")), b"all of it")

    def test_example_pubsub(self):
        self.check("pubsub")

    def test_example_ring(self):
        self.check("ring")

    def test_example_scope(self):
        self.check("scope")

    def test_example_sort(self):
        self.check("sort", "30001", instead=(("10000000", "30001"),))

    def test_example_sieve(self):
        self.check("sieve")

    def test_example_sum(self):
        self.check("sum")

    def test_example_timeout(self):
        self.check("timeout")


class Readme(unittest.TestCase):
    def test_readme_shows_hello(self):
        source = read("examples/hello.c")
        program = source[source.index("#include <"):]
        self.assertLessEqual(program.count("\n"), README_LINES_MAX)
        self.assertIn(f"```c\n{program}```\n", read("README.md"))


class Demonstration(unittest.TestCase):
    def test_demo_runs_to_its_end(self):
        end = run("demo")
        self.assertEqual((end.returncode, end.stderr), (0, ""), end.stdout)
        self.assertIn("1111111 tasks", end.stdout)
        self.assertIn("1006000 hops", end.stdout)
        self.assertIn("times as fast", end.stdout)
        self.assertTrue(all(ord(" ") <= ord(char) <= ord("~") or char == "\n"
                            for char in end.stdout), "stdout is no terminal, and a bar was drawn")


if __name__ == "__main__":
    tap.main()
