# SPDX-License-Identifier: MIT
"""vipl-perf: options, every test and operation verified, JSON rows, a server that outlives its clients."""
import csv
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, Running, directory, run, signal, unique  # noqa: E402

perf = os.path.join(directory(), "vipl-perf")
ping = os.path.join(directory(), "vipl-ping")
info = os.path.join(directory(), "vipl-info")
SHORT = ["--iters", "200", "--warmup", "20", "--depth", "16", "--json"]
UNITS = {"lat": "us", "bw": "megabytes_per_s", "bibw": "megabytes_per_s", "rate": "million_messages_per_s"}

checks = Checks()
checks.common_options(perf)


def usage():
    for wrong in ([], ["--pair", "--local"], ["--pair", "--test", "speed"], ["--pair", "--op", "lat"],
                  ["--pair", "--size", "8..4"], ["--pair", "--wait", "spin"], ["--server", "--limits"], ["--server", "--compare"],
                  ["--local", "--cq"], ["--pair", "--duration", "0"], ["--pair", "stray"],
                  ["--local", "--threads", "2"], ["--local", "--connections", "2"], ["--pair", "--threads", "0"],
                  ["--pair", "--connections", "2", "--verify"], ["--pair", "--receiver", "interrupt"], ["--pair", "--memory", "disk"],
                  ["--pair", "--depth", "0"], ["--pair", "--cpus", "x"], ["--pair", "--format", "xml"]):
        checks.code(run(perf, *wrong), 2, "wrong usage %r" % wrong)


def rows(result, what, expected):
    """The JSON rows of a run that has to succeed, their figures checked."""
    checks.code(result, 0, what)
    found = [checks.json(line, what) for line in result.out.splitlines()]
    checks.that(len(found) == expected, "%s: %d rows, not %d" % (what, len(found), expected), result)
    for row in found:
        name = "%s: %s %s %s" % (what, row.get("test"), row.get("op"), row.get("size"))
        checks.that(row.get("unit") == UNITS.get(row.get("test")), name + ": unit", result)
        checks.that(row.get("wrong") == 0, name + ": wrong bytes", result)
        figures = [row.get(key) for key in ("min", "median", "p90", "p99", "p999", "p9999", "max",
                                               "mean")]
        checks.that(all(isinstance(value, (int, float)) and value >= 0 for value in figures),
                    name + ": figures %r" % figures, result)
        if row.get("test") == "lat" and None not in figures:
            checks.that(figures[:-1] == sorted(figures[:-1]), name + ": order of percentiles", result)
    return found


def verified():
    for wait in ("poll", "block"):
        for queue in ([], ["--cq"]):
            result = run(perf, "--pair", "--verify", "--test", "all", "--op", "all", "--size", "64", "--wait", wait,
                         *SHORT, *queue)
            found = rows(result, "all tests, %s %s" % (wait, queue), 12)
            checks.that(all(row.get("verified") is True and row.get("wait") == wait for row in found),
                        "rows say that they are verified", result)


def device():
    """Rows name the device that was measured, by whatever name it was opened."""
    for how in (["--local"], ["--local", "--device", "VINIC"], ["--pair"]):
        for row in rows(run(perf, *how, *SHORT), "the device's name, %r" % how, 1):
            checks.that(row.get("device") == os.environ.get("VIPL_DEVICE", "loopback"),
                        "%r: device %r" % (how, row.get("device")))


def settings():
    result = run(perf, "--pair", *SHORT, env={"VIPL_LOQ": "info"})
    checks.that(result.err.count("VIPL_LOQ is no setting") == 1, "what is no setting is named once, not by each process", result)


def csv_rows():
    """CSV says what JSON says."""
    result = run(perf, "--local", "--op", "all", "--verify", *[word for word in SHORT if word != "--json"], "--format", "csv")
    checks.code(result, 0, "--format csv")
    found = list(csv.DictReader(result.out.splitlines()))
    members = rows(run(perf, "--local", "--op", "all", "--verify", *SHORT), "the same as JSON", 3)
    checks.that(len(found) == 3, "--format csv: a row a figure", result)
    for row, member in zip(found, members):
        for key in ("version", "test", "op", "device", "reliability", "size", "memory", "receiver", "threads", "connections", "wait",
                    "unit"):
            checks.that(row.get(key) == str(member[key]), "csv: %s is %r" % (key, row.get(key)), result)
        for key in ("min", "median", "p90", "p99", "p999", "p9999", "max", "mean"):
            checks.that(float(row[key]) > 0, "csv: %s is %r" % (key, row.get(key)), result)
        checks.that(row["limit_tcp"] == "" and row["wrong"] == "0" and None not in row, "csv: columns", result)


def sizes():
    # Few messages of each: two that poll take turns on a busy machine.
    result = run(perf, "--pair", "--verify", "--op", "all", "--size", "1..256K", *SHORT, "--iters", "50")
    found = rows(result, "sizes 1 to 256K", 3 * 19)
    checks.that([row.get("size") for row in found[:3]] == [1, 2, 4], "sizes double", result)
    result = run(perf, "--pair", "--test", "bw", "--op", "all", "--size", "1M", "--iters", "40", "--warmup", "10",
                 "--json")
    rows(result, "bandwidth of 1 MiB", 3)
    for level in ("unreliable", "delivery", "reception"):
        rows(run(perf, "--pair", "--reliability", level, "--test", "lat,rate", *SHORT), level, 2)


def local():
    result = run(perf, "--local", "--op", "all", "--test", "lat,bw", "--size", "8..64", "--verify", *SHORT)
    found = rows(result, "in one process", 3 * 2 * 4)
    checks.that(all(row.get("processes") == 1 for row in found), "rows say how many processes", result)


def many():
    """Connections that are used in turn, and threads: each row's figures are of all of them."""
    for options, threads, connections in ((["--connections", "5", "--depth", "8"], 1, 5), (["--threads", "3"], 3, 1),
                                          (["--threads", "2", "--connections", "3"], 2, 3)):
        result = run(perf, "--pair", "--test", "all", "--op", "all", "--size", "64", "--wait", "block", *SHORT, *options)
        for row in rows(result, "%r" % options, 12):
            name = "%s %s, %r" % (row.get("test"), row.get("op"), options)
            checks.that((row.get("threads"), row.get("connections")) == (threads, connections), name + ": says so", result)
            checks.that(row.get("cq") is True or connections == 1, name + ": through a completion queue", result)
            if row.get("test") == "lat":
                checks.that(row.get("samples") == 200 * threads, name + ": samples of all threads", result)
    rows(run(perf, "--pair", "--test", "all", "--op", "all", "--size", "64", "--wait", "block", "--verify", "--threads", "2", *SHORT),
         "verified in two threads", 12)


def receiver():
    """RDMA Writes whose receiver looks at memory alone, and calls the library meanwhile."""
    shares = " sharing=on" in checks.json(run(info, "--json").out, "vipl-info").get("build", "")
    for kind in "memory", "poll":
        for memory in ("heap", "shared") if shares else ("heap",):
            result = run(perf, "--pair", "--op", "write", "--verify", "--receiver", kind, "--memory", memory, *SHORT)
            for row in rows(result, "--receiver %s, --memory %s" % (kind, memory), 1):
                checks.that((row.get("receiver"), row.get("memory")) == (kind, memory), "rows say who looks where", result)


def warm_up():
    """A warm-up ends when its time is over: ten million messages would take half a minute and more."""
    result = run(perf, "--pair", "--wait", "block", "--warmup", "10000000", "--duration", "0.1", "--json")
    for row in rows(result, "a long warm-up", 1):
        checks.that(0 < row["samples"] < 1000000, "as many messages as the duration has room for", result)


def limits():
    result = run(perf, "--pair", "--limits", "--test", "lat,bw", "--size", "4K", "--duration", "0.05", "--rounds",
                 "2", "--warmup", "50", "--json")
    for row in rows(result, "--limits", 2):
        checks.that((row.get("limit_shm") or 0) > 0 and (row.get("ratio_shm") or 0) > 0,
                    "%s has the limit shm and a ratio" % row.get("test"), result)
        checks.that(row.get("limit_memcpy") is None and row.get("limit_vmread") is None,
                    "%s of a short send has no limit that is none" % row.get("test"), result)
    result = run(perf, "--local", "--limits", "--test", "bw", "--size", "4K", "--duration", "0.05", "--warmup", "50", "--json")
    for row in rows(result, "--limits in one process", 1):
        checks.that((row.get("limit_memcpy") or 0) > 0 and row.get("limit_shm") is None, "one process has the limit memcpy", result)
    for wait in "poll", "block":
        result = run(perf, "--pair", "--compare", "--test", "lat,bw", "--size", "4K", "--duration", "0.05", "--wait", wait,
                     "--warmup", "50", "--json")
        for row in rows(result, "--compare", 2):
            checks.that((row.get("limit_tcp") or 0) > 0 and (row.get("ratio_tcp") or 0) > 0 and
                        "limit_shm" not in row, "%s is compared with plain TCP, %s" % (row.get("test"), wait), result)
    result = run(perf, "--pair", "--iters", "100", "--warmup", "10")
    checks.that(result.code == 0 and result.out.startswith("test op"), "the table has a head", result)


def no_server():
    start = time.monotonic()
    result = run(perf, "--client", "--discriminator", unique("nobody"), "--timeout", "200")
    checks.code(result, 1, "a client without a server")
    checks.that(time.monotonic() - start < 5, "a client gives up at its timeout")


def server_survives():
    name = unique("perf")
    where = ["--discriminator", name]
    server = Running(perf, "--server", *where)
    checks.that(server.wait_line("waiting on") is not None, "a server says where it waits")
    for options in (["--wait", "poll"], ["--wait", "block", "--test", "bw"], ["--op", "write"],
                    ["--wait", "block", "--threads", "2", "--connections", "2"]):
        client = Running(perf, "--client", *where, "--duration", "20", *options)
        checks.that(client.wait_line("median") is not None, "a client to be killed has connected")
        client.signal(signal.SIGKILL)
        client.close()
        rows(run(perf, "--client", *where, *SHORT), "the client after a killed one, %r" % options, 1)
    result = run(ping, "--client", *where, "--timeout", "3000")
    checks.code(result, 1, "a client that speaks another protocol")
    checks.that("VIP_REJECT" in result.err, "it is rejected", result)
    client = Running(perf, "--client", *where, "--duration", "20")
    checks.that(client.wait_line("median") is not None, "a client to be interrupted has connected")
    checks.that(client.signal(signal.SIGINT) == 130, "SIGINT ends a client with 130")
    rows(run(perf, "--client", *where, *SHORT), "the client after an interrupted one", 1)
    checks.that(server.signal(signal.SIGINT) == 0, "SIGINT ends a server with 0")
    server.close()


usage()
verified()
device()
settings()
csv_rows()
sizes()
local()
many()
receiver()
warm_up()
limits()
no_server()
server_survives()
checks.finish()
