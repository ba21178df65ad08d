# SPDX-License-Identifier: MIT
"""The programs that are measured. A server runs once by itself and once under vipl-run, through all rounds: a server that waits uses no CPU. A load
gives (requests per second, 99th percentile of a request's time in microseconds, or None)."""
import csv
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "apps"))
import memcached  # noqa: E402
import nginx  # noqa: E402
import postgres  # noqa: E402
import redis  # noqa: E402
import stats  # noqa: E402, F401
from harness import Failed, Machine  # noqa: E402, F401

TCP, UNIX, VIPL, POLLING, CLIENT, SERVER = "TCP", "Unix", "VIPL", "VIPL, polling", "client alone", "server alone"
# (whether the server is the one under vipl-run, whether the client is) of each way.
UNDER = {TCP: (False, False), UNIX: (False, False), VIPL: (True, True), POLLING: (True, True), CLIENT: (False, True), SERVER: (True, False)}
POLL_US = "50"


def settings(way):
    """Of both ends."""
    return {"VIPL_SPIN_US": POLL_US} if way == POLLING else {}


class Program:
    """Servers by themselves and under vipl-run, as they are asked for."""

    def __init__(self, machine):
        self.machine, self.servers = machine, {}

    def server(self, way):
        kind = (UNDER[way][0], way == POLLING)
        if kind not in self.servers:
            self.machine.preloaded = ("server",) if UNDER[way][0] else ()
            self.machine.settings = settings(way)
            self.servers[kind] = self.start()
        return self.servers[kind]

    def run(self, way, *words, **more):
        """A client's output, and what vipl-run tells of it."""
        self.machine.preloaded = ("client",) if UNDER[way][1] else ()
        self.machine.settings = settings(way)
        return self.machine.run("client", *words, **more)

    def start(self):
        raise NotImplementedError

    def measure(self, way, seconds):
        raise NotImplementedError


class Redis(Program):
    def __init__(self, machine, command, clients, rate):
        super().__init__(machine)
        self.command, self.clients, self.rate = command, clients, rate
        self.title = "redis %s, %d client%s" % (command.upper(), clients, "s" if clients > 1 else "")

    def start(self):
        port = self.machine.port()
        return (port,) + redis.start(self.machine, port)

    def measure(self, way, seconds):
        port, _, path = self.server(way)
        where = ["-s", path] if way == UNIX else ["-h", "127.0.0.1", "-p", port]
        told = self.run(way, "redis-benchmark", *where, "-t", self.command, "-c", self.clients, "-n", int(self.rate * seconds), "--csv")
        row = list(csv.DictReader(told.out.splitlines()))[-1]
        return float(row["rps"]), 1000 * float(row["p99_latency_ms"]), told


class Postgres(Program):
    def __init__(self, machine, title, *words):
        super().__init__(machine)
        self.title, self.words = title, words

    def start(self):
        folder = self.machine.folder
        self.machine.folder = self.machine.make_folder("postgres-%d" % self.machine.count, 0o755)
        server = postgres.Server(self.machine)
        self.machine.folder = folder
        self.machine.run("tool", server.tool("pgbench"), *server.unix, "-i", "-q", "postgres")
        return server

    def measure(self, way, seconds):
        server = self.server(way)
        prefix = os.path.join(self.machine.make_folder("log-%d" % self.machine.count), "log")
        told = self.run(way, server.tool("pgbench"), *(server.unix if way == UNIX else server.tcp), "-n", "-T", max(1, round(seconds)),
                        "-l", "--sampling-rate=0.1", "--log-prefix=" + prefix, *self.words, "postgres")
        return float(re.search(r"^tps = ([\d.]+)", told.out, re.M).group(1)), self.percentile(prefix), told

    @staticmethod
    def percentile(prefix):
        """The third word of a line of pgbench's log is the transaction's time in microseconds."""
        times = []
        for path in glob.glob(prefix + ".*"):
            with open(path, encoding="ascii") as file:
                times += [int(line.split()[2]) for line in file]
        times.sort()
        return float(times[len(times) * 99 // 100]) if times else None


class Nginx(Program):
    def __init__(self, machine, title, size, rate, *words):
        super().__init__(machine)
        self.title, self.size, self.rate, self.words = title, size, rate, words

    def start(self):
        folder = self.machine.folder
        self.machine.folder = self.machine.make_folder("nginx-%d" % self.machine.count, 0o755)
        server, port, _ = nginx.start(self.machine)
        self.machine.folder = folder
        return server, port

    def measure(self, way, seconds):
        if way == UNIX:
            return None
        table = os.path.join(self.machine.make_folder("ab-%d" % self.machine.count), "table")
        told = self.run(way, "ab", "-q", "-e", table, "-n", int(self.rate * seconds), *self.words,
                        "http://127.0.0.1:%d/%d" % (self.server(way)[1], self.size))
        if "Failed requests:        0" not in told.out:
            raise Failed("ab: " + told.told())
        with open(table, encoding="ascii") as file:
            rows = {row[0]: float(row[1]) for row in csv.reader(file) if row[0].isdigit()}
        return float(re.search(r"^Requests per second: +([\d.]+)", told.out, re.M).group(1)), 1000 * rows["99"], told


class Memcached(Program):
    def __init__(self, machine, command, clients):
        super().__init__(machine)
        self.command, self.clients = command, clients
        self.title = "memcached %s, %d connection%s" % (command, clients, "s" if clients > 1 else "")
        self.load = machine.copied("vipl-load-memcached")
        self.path = None

    def start(self):
        return memcached.start(self.machine)

    def unix_path(self):
        """memcached has a Unix socket in place of a port: a server of its own."""
        if self.path is None:
            self.path = os.path.join(self.machine.make_folder("memcached-%d" % self.machine.count), "socket")
            self.machine.preloaded = ()
            server = self.machine.start("server", "memcached", "-s", self.path, "-t", 4, "-m", 512)
            self.machine.await_path(server, self.path)
        return self.path

    def measure(self, way, seconds):
        where = [self.unix_path(), 0] if way == UNIX else ["127.0.0.1", self.server(way)[1]]
        told = self.run(way, self.load, *where, self.command, self.clients, seconds)
        rate, _, percentile = map(float, told.out.split())
        return rate, percentile, told


def loads(machine):
    """In the order of the table."""
    select = ("-S", "-M", "prepared")
    return [Redis(machine, "get", 1, 40000), Redis(machine, "get", 50, 100000), Redis(machine, "set", 1, 40000), Redis(machine, "set", 50, 100000),
            Postgres(machine, "pgbench -S prepared, 1 client", *select, "-c", 1),
            Postgres(machine, "pgbench -S prepared, 4 clients, 2 threads", *select, "-c", 4, "-j", 2),
            Postgres(machine, "pgbench -S -C, 2 clients", "-S", "-C", "-c", 2),
            Nginx(machine, "nginx, 100 B, ab -k -c 10", 100, 25000, "-k", "-c", 10), Nginx(machine, "nginx, 100 B, ab -c 10", 100, 10000, "-c", 10),
            Nginx(machine, "nginx, 1 MiB, ab -k -c 4", 1 << 20, 2000, "-k", "-c", 4),
            Memcached(machine, "get", 1), Memcached(machine, "get", 50), Memcached(machine, "set", 50)]
