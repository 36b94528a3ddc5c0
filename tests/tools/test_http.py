#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Goal:   the example http serves well-behaved and misbehaving clients as its comment says.
Method: the tests use curl and wrk if they are installed, and plain sockets for requests that no
        regular client sends.  The server chooses its port and prints it.  At its end a test stops
        the server with a signal, and the server must exit with status 0.
"""
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import tap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("WEFT_TEST_BUILD", os.path.join(ROOT, "build", "dev"))
LINES_MAX = 300
TIMEOUT = 60
TIMEOUT_MS = 10000
HELLO = b"Hello, world!\n"
BIG = bytes(range(256)) * 40000  # more than the socket buffers hold
GET = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


def until(condition):
    """Polls for a condition that another process causes without a notification."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        os.sched_yield()


class Answer:
    def __init__(self, head, body):
        first, *lines = head.decode("ascii").split("\r\n")
        self.status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", first).group(1))
        self.headers = dict(line.split(": ", 1) for line in lines)
        self.body = body


class Client:
    """A connection that sends exactly the given bytes, and parses the answers."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def more(self):
        data = self.socket.recv(65536)
        self.rest += data
        return bool(data)

    def answer(self, has_body=True):
        while b"\r\n\r\n" not in self.rest:
            if not self.more():
                raise EOFError(self.rest)
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        size = int(re.search(rb"Content-Length: (\d+)", head).group(1)) if has_body else 0
        while len(self.rest) < size:
            if not self.more():
                raise EOFError(self.rest)
        body, self.rest = self.rest[:size], self.rest[size:]
        return Answer(head, body)

    def is_at_end(self):
        return not self.rest and not self.more()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class HttpCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "files")
        os.makedirs(os.path.join(self.root, "sub"))
        self.write("index.html", b"<p>first")
        self.write("sub/index.html", b"<p>second")
        self.write("sub/a b.txt", b"text")
        self.write("big", BIG)
        self.write("empty.css", b"")
        self.write("../secret", b"not served")
        self.server = None

    def write(self, path, content):
        with open(os.path.join(self.root, path), "wb") as stream:
            stream.write(content)

    def start(self, workers=2, timeout_ms=TIMEOUT_MS, files_max=None):
        def limit():
            if files_max is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

        self.server = subprocess.Popen(
            [os.path.join(BUILD, "http"), "127.0.0.1:0", self.root, str(timeout_ms)],
            env={**os.environ, "WEFT_WORKERS": str(workers)}, preexec_fn=limit,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.clean)
        self.url = self.server.stdout.readline().strip()
        self.assertRegex(self.url, r"^http://127\.0\.0\.1:\d+/$")
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def clean(self):
        self.server.kill()
        self.server.communicate()

    def stop(self):
        """Stops the server with SIGTERM; it must exit with 0 and print no error."""
        self.server.send_signal(signal.SIGTERM)
        _, errors = self.server.communicate(timeout=TIMEOUT)
        self.assertEqual((self.server.returncode, errors), (0, ""))

    def client(self):
        return Client(self.port)

    def is_alive(self):
        with self.client() as client:
            return client.send(GET).answer().body == HELLO

    def descriptors(self, kind=""):
        """The number of open descriptors of the server."""
        folder = f"/proc/{self.server.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            try:
                count += os.readlink(os.path.join(folder, name)).startswith(kind)
            except FileNotFoundError:
                pass  # the server has closed it meanwhile
        return count

    def until_disconnected(self):
        """Waits until no connection is open: the only socket is the listener."""
        until(lambda: self.descriptors("socket:") == 1)


class Programs(HttpCase):
    def curl(self, *arguments):
        end = subprocess.run(["curl", "-s", "--noproxy", "*", "--max-time", str(TIMEOUT),
                              *arguments], capture_output=True, check=False)
        self.assertEqual(end.returncode, 0, end.stderr)
        return end.stdout

    @needs("curl")
    def test_curl_gets_files_and_their_types(self):
        self.start()
        show = ("-w", "%{http_code} %{content_type} %{size_download}")
        for path, body, end in (("", b"<p>first", b"200 text/html 8"),
                                ("sub/", b"<p>second", b"200 text/html 9"),
                                ("sub/a%20b.txt?query", b"text", b"200 text/plain 4"),
                                ("empty.css", b"", b"200 text/css 0"),
                                ("big", BIG, b"200 application/octet-stream %d" % len(BIG)),
                                ("hello", HELLO, b"200 text/plain 14"),
                                ("none", b"Not Found", b"404 text/plain 9"),
                                ("sub", b"Not Found", b"404 text/plain 9")):
            with self.subTest(path):
                self.assertEqual(self.curl(*show, self.url + path), body + end)
        self.stop()

    @needs("curl")
    def test_curl_reuses_a_connection(self):
        self.start()
        out = self.curl("-w", "%{num_connects}\n", *[self.url + "hello"] * 3)
        self.assertEqual(out, HELLO + b"1\n" + HELLO + b"0\n" + HELLO + b"0\n")
        self.stop()

    @needs("curl")
    def test_curl_put_is_not_allowed(self):
        self.start()
        body = os.path.join(self.root, "big")
        out = self.curl("-w", "%{http_code} %header{allow}", "-T", body, self.url + "hello")
        self.assertEqual(out, b"Method Not Allowed405 GET, HEAD")
        self.stop()

    @needs("wrk")
    def test_wrk_sees_no_error(self):
        for workers in (1, 5):
            self.start(workers=workers)
            for path in ("hello", "sub/a%20b.txt"):
                end = subprocess.run(["wrk", "-c32", "-t1", "-d1", "--timeout", "60s",
                                      self.url + path], timeout=2 * TIMEOUT,
                                     capture_output=True, text=True, check=False)
                self.assertEqual(end.returncode, 0, end.stderr)
                self.assertRegex(end.stdout, r"\n +[1-9]\d* requests in ")
                self.assertNotRegex(end.stdout, "Non-2xx|Socket errors")
            self.stop()


    @needs("wrk")
    def test_benchmark_prints_figures(self):
        end = subprocess.run([os.path.join(ROOT, "bench", "http.py"), "--build", BUILD, "--peers",
                              self.root, "--reps", "1"], timeout=2 * TIMEOUT, capture_output=True,
                             text=True, check=False)
        self.assertEqual((end.returncode, end.stderr), (0, ""))
        self.assertIn("skipped: hyper (", end.stdout)
        self.assertEqual(len(re.findall(r"^\| weft \| [1-9]\d* \|", end.stdout, re.M)), 2)


class Requests(HttpCase):
    def test_example_is_short(self):
        with open(os.path.join(ROOT, "examples", "http.c"), encoding="utf-8") as stream:
            self.assertLess(len(stream.readlines()), LINES_MAX)

    def test_pipelined_requests_are_answered_in_order(self):
        paths = (b"/hello", b"/sub/a%20b.txt", b"/none", b"/big", b"/hello")
        sizes = [(200, 14), (200, 4), (404, 9), (200, len(BIG)), (200, 14)]
        for workers in (1, 2, 5):
            self.start(workers=workers)
            with self.client() as client:
                client.send(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path
                                     for path in paths * 3))
                answers = [client.answer() for _ in range(15)]
                self.assertEqual([(answer.status, len(answer.body)) for answer in answers],
                                 sizes * 3)
                self.assertEqual(answers[3].body, BIG)
            self.stop()

    def test_request_may_arrive_byte_by_byte(self):
        self.start()
        with self.client() as client:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in b"\r\n" + GET + GET.replace(b"\r\n", b"\n"):
                client.send(bytes([byte]))
            self.assertEqual([client.answer().body for _ in range(2)], [HELLO, HELLO])
        self.stop()

    def test_head_answer_equals_get_without_the_body(self):
        self.start()
        with self.client() as client:
            for path in (b"/hello", b"/big", b"/none"):
                head = client.send(b"HEAD %s HTTP/1.1\r\nHost: a\r\n\r\n" % path).answer(False)
                full = client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path).answer()
                self.assertEqual(head.status, full.status)
                for name in ("Content-Length", "Content-Type"):
                    self.assertEqual(head.headers[name], full.headers[name])
                self.assertRegex(head.headers["Date"], r"^\w{3}, \d\d \w{3} \d{4} \d\d:.* GMT$")
        self.stop()

    def test_connection_header_controls_keep_alive(self):
        self.start()
        for version, header, says in ((b"1.1", b"", None), (b"1.1", b"close", "close"),
                                      (b"1.1", b"Close, keep-alive", "close"),
                                      (b"1.0", b"", "close"), (b"1.9", b"", None),
                                      (b"1.0", b"Keep-Alive", "keep-alive")):
            with self.subTest((version, header)), self.client() as client:
                client.send(b"GET /hello HTTP/%s\r\nHost: a\r\n" % version)
                client.send(b"Connection: %s\r\n\r\n" % header if header else b"\r\n")
                answer = client.answer()
                self.assertEqual((answer.body, answer.headers.get("Connection")), (HELLO, says))
                if says == "close":
                    self.assertTrue(client.is_at_end())
                else:
                    self.assertEqual(client.send(GET).answer().body, HELLO)
        self.stop()

    def test_client_may_shut_down_first(self):
        self.start()
        with self.client() as client:
            client.send(GET + GET).socket.shutdown(socket.SHUT_WR)
            self.assertEqual([client.answer().body for _ in range(2)], [HELLO, HELLO])
            self.assertTrue(client.is_at_end())
        with self.client() as client:  # a truncated head is not a request
            client.send(GET[:-2]).socket.shutdown(socket.SHUT_WR)
            self.assertTrue(client.is_at_end())
        self.stop()

    def test_target_may_contain_the_host(self):
        self.start()
        with self.client() as client:
            for target in (b"http://a/hello", b"HTTP://a:80/hello?x", b"/%68ello", b"//hello"):
                client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
                self.assertEqual(client.answer().body, HELLO)
            client.send(b"GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(client.answer().body, b"<p>first")
        self.stop()


class Refusals(HttpCase):
    def check(self, request, status):
        """The server answers the request with `status` and closes the connection."""
        with self.subTest(request[:60]), self.client() as client:
            client.send(request)
            answer = client.answer()
            self.assertEqual((answer.status, answer.headers["Connection"]), (status, "close"))
            client.socket.shutdown(socket.SHUT_WR)
            self.assertTrue(client.is_at_end())

    def test_malformed_requests_are_rejected(self):
        self.start()
        for line in (b"GET", b"GET /", b"GET / ", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ",
                     b"\x16\x03", b"GET / HTTP/1.", b"GET / HTTP/1.\0", b"GET / http/1.1",
                     b"G\0T / HTTP/1.1", b" GET / HTTP/1.1", b"GET a HTTP/1.1",
                     b"GET /%0 HTTP/1.1", b"GET /%zz HTTP/1.1", b"GET /%00 HTTP/1.1",
                     b"GET /\t HTTP/1.1", b"GET /a\rb HTTP/1.1", b"GET /?\x01 HTTP/1.1",
                     b"GET * HTTP/1.1"):
            self.check(line + b"\r\nHost: a\r\n\r\n", 400)
        for header in (b"", b"Host: a\r\nHost: b", b"Host : a", b" Host: a", b"Host: a\r\n b",
                       b"Host", b": a", b"Host: a\0", b"Host: a\rb", b"H st: a",
                       b"Host: a\r\nContent-Length: -1", b"Host: a\r\nContent-Length:",
                       b"Host: a\r\nContent-Length: 1, 1", b"Host: a\r\nContent-Length: +1",
                       b"Host: a\r\nContent-Length: 0\r\nContent-Length: 9",
                       b"Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
                       b"Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"):
            self.check(b"GET /hello HTTP/1.1\r\n" + header + b"\r\n\r\n", 400)
        self.check(b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400)
        self.stop()

    def test_unsupported_requests_are_rejected(self):
        self.start()
        self.check(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 405)
        self.check(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501)
        self.check(b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501)
        self.check(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505)
        chunks = b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %s\r\n\r\n1\r\nx\r\n0\r\n\r\n"
        self.check(chunks % b"Chunked", 411)
        self.check(chunks % b"gzip, chunked", 501)
        self.stop()

    def test_body_is_never_parsed_as_a_request(self):
        self.start()
        with self.client() as client:
            client.send(GET[:-2] + b"Content-Length: %d\r\n\r\n" % len(GET) + GET)
            self.assertEqual(client.answer().headers["Connection"], "close")
            client.socket.shutdown(socket.SHUT_WR)
            self.assertTrue(client.is_at_end())
        self.stop()

    def test_head_size_is_limited(self):
        self.start()
        with self.client() as client:  # just below the limit
            client.send(GET[:-2] + b"A: %s\r\n\r\n" % (b"x" * 8000))
            self.assertEqual(client.answer().body, HELLO)
        self.check(b"GET / HTTP/1.1\r\nA: " + b"x" * 100000, 431)
        self.check(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10000, 431)
        self.check(b"\r\n" * 10000, 431)
        self.check(b"GET /" + b"x" * 1024 + b" HTTP/1.1\r\n\r\n", 414)
        self.stop()

    def test_files_outside_the_folder_are_not_served(self):
        self.start()
        os.symlink("../secret", os.path.join(self.root, "link"))
        os.symlink("..", os.path.join(self.root, "up"))
        os.symlink("/proc/self", os.path.join(self.root, "self"))
        os.symlink("sub/index.html", os.path.join(self.root, "inside"))
        os.mkfifo(os.path.join(self.root, "pipe"))
        secret = os.path.join(os.path.dirname(self.root), "secret").encode()
        for path in (b"/../secret", b"/%2e%2e/secret", b"/sub/..%2F../secret", b"/sub/.."):
            self.check(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path, 400)
        with self.client() as client:
            for path in (b"/link", b"/up/secret", b"/self/environ", b"/" + secret, b"/%2F" + secret,
                         b"/pipe", b"/sub", b"/..../secret", b"/inside/", b"/hello/"):
                client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
                self.assertEqual((path, client.answer().status), (path, 404))
            client.send(b"GET /inside HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(client.answer().body, b"<p>second")
        self.stop()


class Trouble(HttpCase):
    def test_silent_client_is_disconnected(self):
        self.start(timeout_ms=1000)
        with self.client() as mute, self.client() as idle, self.client() as slow:
            idle.send(GET)
            slow.send(GET[:-1])
            self.assertEqual(idle.answer().body, HELLO)
            answer = slow.answer()
            self.assertEqual((answer.status, answer.headers["Connection"]), (408, "close"))
            self.assertTrue(idle.is_at_end())
            self.assertTrue(mute.is_at_end())
        self.stop()

    def test_client_that_reads_nothing_is_disconnected(self):
        self.start(timeout_ms=200)
        with self.client() as client:
            client.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
            client.more()
            self.until_disconnected()
            while client.more():
                pass
            self.assertLess(len(client.rest), len(BIG))
        self.stop()

    def test_client_may_reset_the_connection(self):
        self.start()
        for request in (b"", GET[:9], GET, b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n"):
            client = self.client().send(request)
            if request.endswith(b"\r\n\r\n"):
                client.more()
            client.reset()
        self.assertTrue(self.is_alive())
        self.until_disconnected()
        self.stop()

    def test_file_may_shrink_during_the_answer(self):
        self.start()
        with self.client() as client:
            client.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
            client.more()
            os.truncate(os.path.join(self.root, "big"), 10)
            with self.assertRaises(EOFError):
                client.answer()
        self.stop()

    def test_server_survives_a_lack_of_descriptors(self):
        self.start(files_max=40)
        clients = [self.client().send(GET) for _ in range(60)]
        self.assertEqual(clients[0].answer().body, HELLO)
        until(lambda: self.descriptors() == 40)
        answer = clients[0].send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").answer()
        self.assertEqual(answer.status, 503)
        for client in clients:
            client.socket.close()
        self.assertTrue(self.is_alive())
        self.stop()


class End(HttpCase):
    def begin(self, client):
        """Sends a request and the first bytes of a second one, and receives the first answer.  The
        server has then read these bytes, and accepted all connections made before."""
        self.assertEqual(client.send(GET + GET[:9]).answer().body, HELLO)

    def test_signal_lets_the_current_request_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for workers in (1, 5):
                self.start(workers=workers)
                with self.client() as fresh, self.client() as idle, self.client() as busy:
                    self.begin(busy)
                    self.assertEqual(idle.send(GET).answer().body, HELLO)
                    self.server.send_signal(number)
                    self.assertTrue(idle.is_at_end())
                    self.assertTrue(fresh.is_at_end())
                    with self.assertRaises(ConnectionRefusedError):
                        self.client()
                    self.assertIsNone(self.server.poll())
                    answer = busy.send(GET[9:] + GET).answer()
                    self.assertEqual((answer.body, answer.headers["Connection"]), (HELLO, "close"))
                _, errors = self.server.communicate(timeout=TIMEOUT)
                self.assertEqual((self.server.returncode, errors), (0, ""))

    def test_second_signal_ends_the_server_at_once(self):
        self.start()
        with self.client() as idle, self.client() as busy:
            self.begin(busy)
            self.server.send_signal(signal.SIGTERM)
            self.assertTrue(idle.is_at_end())
            self.server.send_signal(signal.SIGTERM)
            _, errors = self.server.communicate(timeout=TIMEOUT)
            self.assertEqual(self.server.returncode, 1)
            self.assertIn("http: ", errors)

    def test_server_reports_why_it_cannot_start(self):
        self.start()
        for arguments, message in (((), "usage: "), (("127.0.0.1:0",), "usage: "),
                                   (("127.0.0.1:0", "/none"), "http: No such file"),
                                   ((f"127.0.0.1:{self.port}", "/"),
                                    "http: Address already in use")):
            end = subprocess.run([os.path.join(BUILD, "http"), *arguments], timeout=TIMEOUT,
                                 capture_output=True, text=True, check=False)
            self.assertEqual((end.returncode, end.stdout), (1, ""))
            self.assertTrue(end.stderr.startswith(message), end.stderr)
        self.stop()


if __name__ == "__main__":
    tap.main()
