#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures HTTP requests per second of examples/http.c, nginx, Go's net/http and hyper.

    bench/http.py [--build DIR] [--peers DIR] [--reps N] [--seconds N] [--json FILE]

Each server runs on the first CPU with one worker, and wrk with 64 connections on the last CPU.
Both run in sessions with the highest autogroup priority, if the kernel permits that.  The
repetitions of the servers are interleaved.  All servers run until the end: a server without
requests uses no CPU time.  The CPU time is that of the server only.  The script prints a line for
each server that is not installed and skips it.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONNECTIONS = 64
FILE_SIZE = 4096
PATHS = {"http-hello": "hello", "http-file-4k": "file.html"}

# A script for wrk, which prints its results in a form that measure() reads.
REPORT = """
done = function(summary, latency)
    local errors = summary.errors
    io.write(string.format("\\nreport %d %d %d %d %d\\n", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""

NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    sendfile on;
    types {{ text/html html; }}
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
        location = /hello {{ default_type text/plain; return 200 "Hello, world!\\n"; }}
    }}
}}
"""


def shield(cpu):
    """Returns a function for the child process: a new session, bound to one CPU."""
    def run():
        os.setsid()
        os.sched_setaffinity(0, {cpu})
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as stream:
                stream.write("-20")
        except OSError:
            pass  # not permitted: the default priority
    return run


def cpu_ns(pid):
    """The CPU time of all threads of a process, including threads that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
        words = stream.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, name, command, url=None, **environment):
        self.name = name
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment},
                                        preexec_fn=shield(min(os.sched_getaffinity(0))))
        self.url = url or self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.communicate()


def free_port():
    """A free port: nginx cannot choose a port itself and report it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def start_nginx(folder):
    port = free_port()
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w", encoding="ascii") as stream:
        stream.write(NGINX.format(folder=folder, port=port))
    server = Server("nginx", ["nginx", "-c", path, "-e", os.path.join(folder, "nginx.log")],
                    f"http://127.0.0.1:{port}/")
    while subprocess.run(["curl", "-s", "-o", "/dev/null", server.url + "hello"],
                         check=False).returncode != 0 and server.process.poll() is None:
        os.sched_yield()
    return server


def start_all(options, folder):
    files = os.path.join(folder, "files")
    os.mkdir(files)
    with open(os.path.join(files, "file.html"), "w", encoding="ascii") as stream:
        stream.write("x" * FILE_SIZE)
    yield Server("weft", [os.path.join(options.build, "http"), "127.0.0.1:0", files],
                 WEFT_WORKERS="1")
    if shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin") and shutil.which("curl"):
        yield start_nginx(folder)
    else:
        print("skipped: nginx (apt-get install nginx-light curl)")
    for name in ("go", "hyper"):
        program = os.path.join(options.peers, "http", name)
        if os.path.exists(program):
            yield Server(name, [program, files])
        else:
            print(f"skipped: {name} (bench/peers/build.sh has not built it)")


def measure(server, path, seconds, script):
    before = cpu_ns(server.process.pid)
    end = subprocess.run(["wrk", f"-c{CONNECTIONS}", "-t1", f"-d{seconds}", "--timeout", "60s",
                          "-s", script, server.url + path],
                         capture_output=True, text=True, check=True,
                         preexec_fn=shield(max(os.sched_getaffinity(0))))
    spent = cpu_ns(server.process.pid) - before
    words = end.stdout.rsplit("\nreport ", 1)[1].split()
    requests, wall_us, p50_us, p99_us, errors = (int(word) for word in words)
    if errors or not requests:
        raise RuntimeError(f"{server.name}: {errors} errors in {requests} requests\n{end.stdout}")
    return {"per_s": requests * 1_000_000 / wall_us, "cpu_us": spent / requests / 1000,
            "p50_us": p50_us, "p99_us": p99_us}


def serves(server, path):
    return not (server.name == "hyper" and path != "hello")  # the hyper program has no files


def table(row, results):
    """Prints the best repetition of each figure: other load disturbed it least."""
    print(f"\n## {row}: wrk with {CONNECTIONS} connections, a core each\n")
    print("| server | requests/s | CPU us/request | p50 us | p99 us | x weft |")
    print("|---|--:|--:|--:|--:|--:|")
    best = {name: {key: (max if key == "per_s" else min)(cell[key] for cell in cells)
                   for key in cells[0]} for name, cells in results.items()}
    for name, cell in best.items():
        print(f"| {name} | {cell['per_s']:.0f} | {cell['cpu_us']:.2f} | {cell['p50_us']} | "
              f"{cell['p99_us']} | {cell['per_s'] / best['weft']['per_s']:.2f} |")


def run(options, folder):
    script = os.path.join(folder, "report.lua")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(REPORT)
    servers = []
    lines = []
    try:
        servers.extend(start_all(options, folder))
        for row, path in PATHS.items():
            results = {}
            for _ in range(options.reps):
                for server in (server for server in servers if serves(server, path)):
                    cell = measure(server, path, options.seconds, script)
                    results.setdefault(server.name, []).append(cell)
                    lines.append(json.dumps({"row": row, "variant": server.name, **cell}))
            table(row, results)
    finally:
        for server in servers:
            server.end()
        if options.json:
            with open(options.json, "w", encoding="ascii") as stream:
                stream.writelines(line + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "peers"))
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        print("skipped: http (no wrk: apt-get install wrk)")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # nginx drops its privileges
        run(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
