# SPDX-License-Identifier: MIT
"""nginx with two workers (edge triggered epoll, sendfile): curl in parallel, uploads, ab, 1,000 connections, a reload under load."""
import os
import re
import signal

from harness import PATIENT, wait_until
from peers import pattern

CONFIGURATION = """
worker_processes 2;
daemon off;
pid %(folder)s/pid;
error_log stderr warn;
env VIPL_SOCKETS_JOIN_MS;
events { worker_connections 4096; use epoll; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 600s;
    keepalive_requests 1000000;
    client_max_body_size 0;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    server {
        listen 127.0.0.1:%(port)d backlog=1024;
        root %(folder)s/files;
        location /put/ { dav_methods PUT; create_full_put_path on; }
    }
}
"""
SIZES = (0, 1, 100, 16384, 65537, 1 << 20, 5 << 20)
MANY = 1000


def start(machine):
    port = machine.port()
    folder = machine.make_folder("nginx")
    machine.make_folder("nginx/files")
    for size in SIZES + ((40 << 20,) if machine.full else ()):
        machine.make_file("nginx/files/%d" % size, pattern.data(size, size))
    text = machine.make_file("nginx/conf", CONFIGURATION % {"folder": folder, "port": port})
    server = machine.start("server", "nginx", "-e", "stderr", "-c", text, env=PATIENT)
    machine.await_port(server, port)
    return server, port, folder


def downloads(machine, port, folder):
    """curl -Z: each file twice, all at a time; compared byte by byte."""
    got = machine.make_folder("got")
    lines, pairs = [], []
    for number, name in enumerate(os.listdir(os.path.join(folder, "files")) * 2):
        copy = os.path.join(got, "%d-%s" % (number, name))
        lines += ['url = "http://127.0.0.1:%d/%s"' % (port, name), 'output = "%s"' % copy]
        pairs.append((os.path.join(folder, "files", name), copy))
    machine.run("client", "curl", "-sS", "--fail", "-Z", "--parallel-immediate", "--parallel-max", 8, "-K",
                machine.make_file("downloads", "\n".join(lines) + "\n"), env=PATIENT)
    for original, copy in pairs:
        with open(original, "rb") as one, open(copy, "rb") as other:
            machine.checks.that(one.read() == other.read(), "WRONG contents: " + copy)


def uploads(machine, port, folder):
    for size in SIZES:
        machine.run("client", "curl", "-sS", "--fail", "-T", os.path.join(folder, "files", str(size)), "http://127.0.0.1:%d/put/%d" % (port, size),
                    env=PATIENT)
        with open(os.path.join(folder, "files", "put", str(size)), "rb") as file:
            machine.checks.that(file.read() == pattern.data(size, size), "WRONG contents of an upload of %d bytes" % size)


def benchmark(machine, port, size, count, clients, *options):
    run = machine.run("client", "ab", "-q", "-n", count, "-c", clients, *options, "http://127.0.0.1:%d/%d" % (port, size), env=PATIENT)
    figures = dict(re.findall(r"^([A-Z][\w -]+?): +(\d+)", run.out, re.M))
    machine.checks.that(figures.get("Complete requests") == str(count) and figures.get("Failed requests") == "0"
                        and figures.get("HTML transferred") == str(count * size) and "Non-2xx" not in run.out, "ab: " + run.told())


def reloads(machine, server, port):
    """The workers are replaced while ab runs: no request fails."""
    count = 40000
    client = machine.start("client", "ab", "-q", "-n", count, "-c", 20, "http://127.0.0.1:%d/100" % port, env=PATIENT)
    for _ in range(3):
        workers = set(server.family()) - {server.pid}
        server.popen.send_signal(signal.SIGHUP)
        wait_until("the workers are others", lambda old=workers: not old & set(server.family()))
    client.wait()
    machine.checks.that("Complete requests:      %d" % count in client.out and "Failed requests:        0" in client.out, "reload: " + client.told())


def run(machine, _options):
    machine.need("nginx", "curl", "ab")
    server, port, folder = start(machine)
    downloads(machine, port, folder)
    uploads(machine, port, folder)
    count = 20000 if machine.full else 1000
    benchmark(machine, port, 100, count, 20)
    benchmark(machine, port, 16384, count, 20, "-k")
    benchmark(machine, port, 1 << 20, count // 20, 4)
    many = machine.run("client", *machine.peer("http_many.py", port, MANY, SIZES[3], 5 if machine.full else 2),
                       env=PATIENT)
    machine.checks.that("%d connections right" % MANY in many.out, many.told())
    if machine.full:
        reloads(machine, server, port)
    machine.checks.that(server.stop(signal.SIGQUIT) == 0, "nginx ends at SIGQUIT: " + server.told())
    # ab closes up to 20 connections in the middle of their handshake, when it has all it wanted: those do not count.
    machine.check_moved(1 + len(SIZES) + count + 20 + count // 20 + MANY)
