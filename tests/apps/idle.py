# SPDX-License-Identifier: MIT
"""Programs that wait use no CPU: servers with connections that have been used, and their clients, which wait in epoll, in poll or in a read.

This is the one test that lets time pass: it counts what processes use of the CPU within a window. What the others on the machine do does not count.
"""
import os
import subprocess
import time

import memcached
import nginx
import postgres
import redis
from harness import cpu_ticks

CONNECTIONS = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MOST = 0.02  # of a CPU: Redis wakes ten times a second for itself


class Client:
    """Connections that wait, until it is stopped."""

    def __init__(self, machine, *words):
        self.process = machine.start("client", *words, stdin=subprocess.PIPE)
        self.input = self.process.popen.stdin

    def stop(self):
        self.input.close()
        return self.process.wait()


def opened(machine, port, request):
    client = Client(machine, *machine.peer("open_many.py", port, CONNECTIONS, request.hex()))
    client.process.wait_text("open")
    return client


def of_redis(machine):
    port = machine.port()
    server, _ = redis.start(machine, port)
    return server, opened(machine, port, b"PING\r\n")


def of_nginx(machine):
    server, port, _ = nginx.start(machine)
    return server, opened(machine, port, b"GET /100 HTTP/1.1\r\nHost: localhost\r\n\r\n")


def of_memcached(machine):
    server, port = memcached.start(machine)
    return server, opened(machine, port, b"version\r\n")


def of_postgres(machine):
    server = postgres.Server(machine)
    client = Client(machine, server.tool("psql"), *server.tcp, "-XAtq", "-d", "postgres")
    client.input.write(b"select 'is ' || 'open';\n")
    client.input.flush()
    client.process.wait_text("is open")
    return server.process, client


def of_asyncio(machine):
    port = machine.port()
    server = machine.start("server", *machine.peer("asyncio_echo.py", "server", port))
    machine.await_port(server, port)
    return server, opened(machine, port, b"x")


def run(machine, _options):
    machine.need("redis-server", "nginx", "memcached")
    window_s = 10 if machine.full else 3
    pairs = [(start.__name__, start(machine)) for start in (of_redis, of_nginx, of_memcached, of_postgres, of_asyncio)]
    sides = [("%s, the %s" % (name, side), process) for name, (server, client) in pairs
             for side, process in (("server", server), ("client", client.process))]
    before = [cpu_ticks([process]) for _, process in sides]
    time.sleep(window_s)
    for (name, process), ticks in zip(sides, before):
        used = (cpu_ticks([process]) - ticks) / TICKS_PER_S / window_s
        print("%-28s %.1f %% of a CPU" % (name, 100 * used))
        machine.checks.that(used <= MOST, "%s: it waits, and uses %.1f %% of a CPU" % (name, 100 * used))
    for _, (server, client) in pairs:
        machine.checks.that(client.stop() == 0, "the client ends: " + client.process.told())
        server.stop()
    machine.check_moved(4 * CONNECTIONS + 1)
