#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures this library beside the machine's limits and beside UCX, libfabric, qperf and Open MPI, in turns, and writes docs/use/performance.md.

    compare.py BUILD [--quick] [--rounds N] [--only TABLE] [--to FOLDER] [--plots PYTHON]
    compare.py BUILD --report-only [--to FOLDER] [--plots PYTHON]

BUILD is a release build. The raw rows are in BUILD/bench.jsonl. --quick: fewer sizes and rounds, in less than three minutes. --plots: draw the page's
plots by a Python that has matplotlib.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import contenders
import report
import scale
from tables import TABLES

HERE = os.path.dirname(os.path.abspath(__file__))
CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"


class SameCongestionControl:
    """cubic for all, where the system lets us: others pace loopback."""

    def __enter__(self):
        self.before = self.text = self._read()
        if self.before != "cubic":
            self._write("cubic")
            self.text = self._read()
        return self

    def __exit__(self, *_):
        if self.before != self._read():
            self._write(self.before)

    @staticmethod
    def _read():
        try:
            with open(CONGESTION, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return "unknown"

    @staticmethod
    def _write(name):
        try:
            with open(CONGESTION, "w", encoding="ascii") as file:
                file.write(name)
        except OSError:
            pass


def measure(machine, arguments, raw):
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    start = time.monotonic()
    for number in range(rounds):
        for table in TABLES:
            if arguments.only and arguments.only not in table.key:
                continue
            for size in table.quick_sizes if arguments.quick else table.sizes:
                for contender in table.contenders:
                    if contender.program is not None and shutil.which(contender.program) is None:
                        continue
                    for name, figure in contender.figures(machine, size).items():
                        raw.write(json.dumps({"table": table.key, "name": name, "size": size, "round": number, "figure": figure}) + "\n")
        raw.flush()
        print("round %d of %d: %d s" % (number + 1, rounds, time.monotonic() - start), file=sys.stderr)
    return rounds


def facts_of(machine, rounds, congestion, load):
    missing = sorted({each.program for table in TABLES for each in table.contenders if each.program and shutil.which(each.program) is None})
    notes = ["%s is not installed here." % program for program in missing]
    notes += ["%s gave no figure at least once: %s" % (who, what) for who, what in sorted(machine.problems.items())]
    notes.append("Congestion control of all: %s." % congestion)
    notes.append("Load of the machine before and after: %.1f, %.1f." % load)
    text = "%d rounds on %d CPUs (%s), Linux %s, %s." % (rounds, os.cpu_count() or 1, platform.machine(), platform.release().split("-")[0],
                                                      time.strftime("%Y-%m-%d"))
    return {"text": text, "notes": notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only")
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--expect", help="fail unless this contender gave figures")
    parser.add_argument("--to", default=os.path.join(HERE, "..", "..", "docs", "use"))
    parser.add_argument("--plots", metavar="PYTHON")
    arguments = parser.parse_args()
    rows, facts = os.path.join(arguments.build, "bench.jsonl"), os.path.join(arguments.build, "bench-facts.json")
    if not arguments.report_only:
        machine = contenders.Machine(arguments.build, 0.1 if arguments.quick else 0.3)
        before = os.getloadavg()[0]
        with SameCongestionControl() as congestion, open(rows, "w", encoding="utf-8") as raw:
            rounds = measure(machine, arguments, raw)
        with open(facts, "w", encoding="utf-8") as file:
            found = facts_of(machine, rounds, congestion.text, (before, os.getloadavg()[0]))
            found["scale"] = [] if arguments.quick or arguments.only else scale.measure(arguments.build)
            json.dump(found, file)
    with open(rows, encoding="utf-8") as file:
        raw_rows = [json.loads(line) for line in file]
    with open(facts, encoding="utf-8") as file:
        report.write(raw_rows, json.load(file), arguments.to)
    if arguments.expect and not any(row["name"] == arguments.expect and row["figure"] for row in raw_rows):
        print("compare: no figure of %s" % arguments.expect, file=sys.stderr)
        return 1
    page = os.path.join(arguments.to, "performance.md")
    if arguments.plots:
        subprocess.run([arguments.plots, "-B", os.path.join(HERE, "plot.py"), page], check=True)
    print(os.path.relpath(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
