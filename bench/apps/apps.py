#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote, over TCP, over Unix sockets and over VIPL by vipl-run: requests per second, in turns, medians over rounds. And
calls of omniORB.

    apps.py BUILD [--rounds N] [--seconds S] [--only PART-OF-A-TITLE] [--ways 'WAY;...'] [--record [--to FOLDER] [--plots PYTHON]]
    apps.py BUILD --report-only [--record ...]

BUILD is a release build; the raw rows are in BUILD/bench-apps.jsonl. Ways: TCP, Unix, VIPL, "VIPL, polling" (VIPL_SPIN_US=50 at both ends), "client
alone" and "server alone" (under vipl-run, while the other end is a plain program); separated by semicolons. "omniORB" is the title of the calls. --record writes the section of docs/use/performance.md.
"""
import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import time

import calls
import loads
import report
import section

HERE = os.path.dirname(os.path.abspath(__file__))
ALL_WAYS = (loads.TCP, loads.UNIX, loads.VIPL, loads.POLLING, loads.CLIENT, loads.SERVER)
# Those beside which a plain peer is measured: what it costs to look whether a connection could be moved, and to leave it.
BESIDE_PLAIN = ("redis GET, 1 client", "redis GET, 50 clients", "pgbench -S prepared, 1 client", "pgbench -S -C, 2 clients", "nginx, 100 B, ab -c 10")


def ways_of(program, wanted):
    return [way for way in wanted if way not in (loads.CLIENT, loads.SERVER) or program.title in BESIDE_PLAIN]


def measure_one(machine, program, way, seconds):
    """A row; None where there is no such way."""
    try:
        found = program.measure(way, seconds)
    except loads.Failed as failure:
        print("apps: %s, %s: %s" % (program.title, way, failure), file=sys.stderr)
        return {"failed": str(failure).splitlines()[0][:200]}
    if found is None:
        return None
    rate, percentile, told = found
    row = {"rate": rate, "p99": percentile}
    if loads.UNDER[way][1]:
        counted = loads.stats.parse(told.err)
        row.update(moved=counted.moved, plain=counted.plain, reasons=counted.reasons)
    machine.forget(told)
    return row


def measure_calls(arguments, number, raw):
    """omniORB's calls: a server and a client for each way."""
    orb = calls.Calls(arguments.build)
    if (arguments.only or "") not in "omniORB" or not orb.are_there():
        return
    for way in calls.WAYS:
        for row in orb.measure(way, arguments.seconds):
            raw.write(json.dumps(dict(row, round=number)) + "\n")
    raw.flush()


def measure(arguments, raw):
    wanted = arguments.ways.split(";") if arguments.ways else ALL_WAYS
    ends = "both" if any(any(loads.UNDER[way]) for way in wanted) else "neither"
    with loads.Machine(os.path.join(arguments.build, "bin"), ends, True) as machine:
        programs = [each for each in loads.loads(machine) if (arguments.only or "") in each.title]
        start = time.monotonic()
        for number in range(arguments.rounds):
            for program in programs:
                for way in ways_of(program, wanted):
                    row = measure_one(machine, program, way, arguments.seconds)
                    if row is not None:
                        raw.write(json.dumps(dict(row, program=program.title, way=way, round=number)) + "\n")
                raw.flush()
            measure_calls(arguments, number, raw)
            print("round %d of %d: %d s" % (number + 1, arguments.rounds, time.monotonic() - start), file=sys.stderr)


def facts(arguments, load):
    rounds = "%d round%s" % (arguments.rounds, "s" if arguments.rounds != 1 else "")
    text = "%s on %d CPUs (%s), Linux %s, %s." % (rounds, os.cpu_count() or 1, platform.machine(), platform.release().split("-")[0],
                                               time.strftime("%Y-%m-%d"))
    return {"text": text, "load": load}


def leave_network():
    """A network name space of this run's own, where closed connections are forgotten at once: those of one way would use up the ports that the
    next one needs. Without the right to that, rates of programs that connect for each request are too low."""
    clone_newnet = 0x40000000
    if ctypes.CDLL(None).unshare(clone_newnet) != 0:
        print("not root: connections that were closed count", file=sys.stderr)
        return
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with open("/proc/sys/net/ipv4/tcp_max_tw_buckets", "w", encoding="utf-8") as file:
        file.write("0")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="about, of one figure")
    parser.add_argument("--only")
    parser.add_argument("--ways")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--to", default=os.path.join(HERE, "..", "..", "docs", "use"))
    parser.add_argument("--plots", metavar="PYTHON")
    arguments = parser.parse_args()
    rows_path, facts_path = os.path.join(arguments.build, "bench-apps.jsonl"), os.path.join(arguments.build, "bench-apps-facts.json")
    if not arguments.report_only:
        leave_network()
        before = os.getloadavg()[0]
        with open(rows_path, "w", encoding="utf-8") as raw:
            measure(arguments, raw)
        with open(facts_path, "w", encoding="utf-8") as file:
            json.dump(facts(arguments, [before, os.getloadavg()[0]]), file)
    with open(rows_path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    with open(facts_path, encoding="utf-8") as file:
        text = report.section_text(rows, json.load(file))
    print(text)
    if arguments.record:
        page = os.path.join(arguments.to, "performance.md")
        section.write(page, text)
        if arguments.plots:
            subprocess.run([arguments.plots, "-B", os.path.join(HERE, "plot.py"), page], check=True)
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
