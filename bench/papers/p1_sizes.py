#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""P1's tables over sizes: latency and bandwidth of VIPL beside TCP's, and copying beside pulling, with the size from which pulling wins.

    p1_sizes.py BUILD [--rounds N] [--seconds S]

The paper has a SAN beside Fast Ethernet, and TCP over the same SAN for bandwidth; here it is two processes of one host over loopback, beside a TCP
connection of theirs. In the paper pulling (SEND-GET) is used from 512 bytes on; here the receiver reads the sender's memory (process_vm_readv), and a copy
goes through a ring. Wall time, two processes that poll, medians over rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

TITLE = "  %-44s %12s %12s %9s %9s"
INLINE_MAX = 16384  # VIPL_LOOPBACK_INLINE


def perf(build, options, environment=None):
    command = [os.path.join(build, "bin", "vipl-perf"), "--pair", "--json"] + options
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, **(environment or {}))).stdout
    return json.loads(text.splitlines()[-1])


def number(value):
    return "-" if value is None else "%.4g" % value


def show(name, paper, ours, paper_ratio=None, our_ratio=None):
    print(TITLE % (name, number(paper), number(ours), number(paper_ratio), number(our_ratio)))


def head(title, unit):
    print("\n%s (%s; wall time)" % (title, unit))
    print(TITLE % ("", "paper", "ours", "p. ratio", "our ratio"))


class Medians:
    """Figures of several rounds, in turns."""

    def __init__(self, arguments):
        self.arguments, self.found = arguments, {}

    def add(self, key, figure):
        self.found.setdefault(key, []).append(figure)

    def of(self, key):
        return statistics.median(self.found[key])

    def measure(self, key, test, device, size, environment=None):
        row = perf(self.arguments.build, ["--test", test, "--device", device, "--size", str(size), "--duration", str(self.arguments.seconds)]
                   + (["--compare"] if device != "loopback" else []), environment)
        figure = "median" if test == "lat" else "mean"
        self.add(key, row["limit_tcp"] if device != "loopback" else row[figure])


def beside_tcp(arguments):
    paper = {("lat", 1): (51, 88), ("bw", 32768): (90.6, 47.3)}
    medians = Medians(arguments)
    sizes = {"lat": (1, 64, 512, 1024, 4096, 32768), "bw": (512, 4096, 32768, 262144)}
    for _ in range(arguments.rounds):
        for test, each in sizes.items():
            for size in each:
                medians.measure(("vipl", test, size), test, "loopback", size)
                medians.measure(("tcp", test, size), test, "tcp:127.0.0.1", size)
    for test, title, unit in (("lat", "P1: one-way latency beside TCP", "us"), ("bw", "P1: bandwidth beside TCP", "10^6 bytes/s")):
        head(title, unit)
        for size in sizes[test]:
            ours, theirs = paper.get((test, size), (None, None))
            tcp, vipl = medians.of(("tcp", test, size)), medians.of(("vipl", test, size))
            show("TCP, %d B" % size, theirs, tcp)
            show("VIA, %d B" % size, ours, vipl, ours / theirs if ours else None, vipl / tcp)


def copy_and_pull(arguments):
    medians = Medians(arguments)
    sizes = (256, 512, 1024, 2048, 4096, 8192, 16384)
    for _ in range(arguments.rounds):
        for size in sizes:
            medians.measure(("copy", size), "lat", "loopback", size, {"VIPL_LOOPBACK_INLINE": str(INLINE_MAX)})
            medians.measure(("pull", size), "lat", "loopback", size, {"VIPL_LOOPBACK_INLINE": "0"})
    head("P1.8, P1.9: copying beside pulling, one-way latency", "us")
    crossover = None
    for size in sizes:
        copy, pull = medians.of(("copy", size)), medians.of(("pull", size))
        show("copy, %d B" % size, 74.2 if size == 256 else None, copy)
        show("pull, %d B" % size, None, pull, None, pull / copy)
        crossover = size if crossover is None and pull < copy else crossover
    head("P1.9: pulling wins from", "bytes")
    show("the size from which messages are pulled", 512, crossover)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    arguments = parser.parse_args()
    beside_tcp(arguments)
    copy_and_pull(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
