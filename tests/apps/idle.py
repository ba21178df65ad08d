# SPDX-License-Identifier: MIT
"""Programs that wait use no CPU, and do not wake: servers with connections that have been used, and their clients, which wait in epoll, in poll or
in a read.

This is the one test that lets time pass: it counts what processes use of the CPU within a window, and how often they wake in it, of which some
servers have timers of their own. What the others on the machine do does not count.
"""
import os
import subprocess
import time

import memcached
import nginx
import postgres
import redis
from harness import cpu_ticks, wakings

CONNECTIONS = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MOST = 0.02  # of a CPU
# How often a second the servers wake for themselves, at most; clients never do.
OWN_WAKINGS = {"of_redis": 15, "of_nginx": 0, "of_memcached": 5, "of_postgres": 16, "of_asyncio": 0}


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


def woken(process):
    """How often a program and what is below it have woken."""
    return sum(wakings(pid) for pid in process.family())


def seen_awake(sides, window_s):
    """Those that do more in a window than a program does that waits, and what."""
    awake = {}
    before = [(cpu_ticks([process]), woken(process)) for _, process, _ in sides]
    time.sleep(window_s)
    for side, (ticks, times) in zip(sides, before):
        name, process, own = side
        used = (cpu_ticks([process]) - ticks) / TICKS_PER_S / window_s
        wakes = woken(process) - times
        print("%-28s %.1f %% of a CPU, woken %d times in %d s" % (name, 100 * used, wakes, window_s))
        if used > MOST or wakes > own * window_s:
            awake[side] = "%s: it waits, uses %.1f %% of a CPU, and wakes %d times in %d s" % (name, 100 * used, wakes, window_s)
    return awake


def run(machine, _options):
    machine.need("redis-server", "nginx", "memcached")
    window_s = 10 if machine.full else 3
    pairs = [(start.__name__, start(machine)) for start in (of_redis, of_nginx, of_memcached, of_postgres, of_asyncio)]
    sides = [("%s, the %s" % (name, side), process, own) for name, (server, client) in pairs
             for side, process, own in (("server", server, OWN_WAKINGS[name]), ("client", client.process, 0))]
    awake = seen_awake(sides, window_s)
    if awake:  # where others need the CPUs, the last of the work may be done late
        awake = seen_awake(list(awake), window_s)
    machine.checks.that(not awake, "; ".join(awake.values()))
    for _, (server, client) in pairs:
        machine.checks.that(client.stop() == 0, "the client ends: " + client.process.told())
        server.stop()
    machine.check_moved(4 * CONNECTIONS + 1)
