#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A process of this machine and one of another CPU or of Windows, under its emulator, over sockets or over one emulated card: every
operation, both roles.

    endian.py NATIVE-FOLDER FOREIGN-FOLDER [EMULATOR...]

The folders hold the tools of the two builds. VIPL_TEST_DEVICE is the device: tcp:ADDRESS, or rnic, on a native adapter. Each tool checks every byte that it
receives: sends (with immediate data), RDMA Writes (with and without) and RDMA Reads, of one FPDU and of many.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "support"))
import toolrun  # noqa: E402
from toolrun import Checks, Running, run, signal, unique  # noqa: E402

if len(sys.argv) < 3:
    sys.exit("usage: %s NATIVE-FOLDER FOREIGN-FOLDER [EMULATOR...]" % sys.argv[0])
NATIVE, FOREIGN = [], sys.argv[3:]
FOLDERS = {"native": sys.argv[1], "foreign": sys.argv[2]}
DEVICE = os.environ.get("VIPL_TEST_DEVICE", "tcp:127.0.0.1")
HOST = DEVICE.partition(":")[2]
CLIENT = "--client=" + HOST if HOST else "--client"
FEW = ["--iters", "40", "--warmup", "4", "--depth", "8", "--json"]

checks = Checks()


def command(side, tool):
    path = os.path.join(FOLDERS[side], tool)
    path += ".exe" if os.path.exists(path + ".exe") else ""
    return (NATIVE if side == "native" else FOREIGN) + [path, "--device", DEVICE,
                                                        "--timeout", str(min(toolrun.LIMIT_S * 500, 3600000))]  # the most that they take


def serve(side, tool, name, crc):
    os.environ["VIPL_MPA_CRC"] = crc
    server = Running(*command(side, tool), "--server", "--discriminator", name)
    checks.that(server.wait_line("waiting on") is not None, "a %s %s server waits" % (side, tool))
    return server


def ping(client, name, what):
    for size in ("1", "63", "4096", "100000"):
        for level in ("unreliable", "delivery", "reception"):
            result = run(*command(client, "vipl-ping"), CLIENT, "--discriminator", name, "--size", size,
                         "--count", "3", "--reliability", level, "--json")
            checks.code(result, 0, "%s, ping %s, %s" % (what, size, level))
            summary = checks.json(result.out, what)
            checks.that(summary.get("intact") == 3, "%s, ping %s, %s: intact" % (what, size, level), result)


def perf(client, name, what):
    for wait in ("poll", "block"):
        result = run(*command(client, "vipl-perf"), CLIENT, "--discriminator", name, "--verify", "--test",
                     "lat,bw,bibw", "--op", "all", "--size", "3000..48000", "--wait", wait, "--reliability",
                     "reception" if wait == "poll" else "delivery", *FEW)
        checks.code(result, 0, "%s, perf, %s" % (what, wait))
        rows = [checks.json(line, what) for line in result.out.splitlines()]
        checks.that(len(rows) == 3 * 3 * 5, "%s, perf, %s: %d rows" % (what, wait, len(rows)), result)
        for row in rows:
            checks.that(row.get("verified") is True and row.get("wrong") == 0,
                        "%s: %s %s %s" % (what, row.get("test"), row.get("op"), row.get("size")), result)


for role in (("native", "foreign"), ("foreign", "native")):
    for crc, tool, measure in (("on", "vipl-ping", ping), ("off", "vipl-ping", ping), ("on", "vipl-perf", perf)):
        if crc == "off" and not DEVICE.startswith("tcp"):
            continue  # it is the transport's own affair there
        name = unique(tool)
        server = serve(role[0], tool, name, crc)
        measure(role[1], name, "%s server, %s client, CRC %s" % (role + (crc,)))
        checks.that(server.signal(signal.SIGINT) == 0, "SIGINT ends the %s %s server with 0" % (role[0], tool))
        server.close()
checks.finish()
