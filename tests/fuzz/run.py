#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs libFuzzer's programs from the kept inputs, as many at a time as there are CPUs.

    run.py FOLDER-OF-THE-PROGRAMS FOLDER-FOR-WHAT-IS-FOUND SECONDS [NAME=SECONDS...]

Each has SECONDS but those that are named, which have their own. Those with the most begin, so that none runs last by itself.
New inputs stay in the last folder, and with them one that crashes, leaks or takes too long: its path is printed,
and the exit code is 1. Such a one belongs into corpus/, under a name that says what it shows.
"""
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "vipl-fuzz-run-"
LIMITS = ["-timeout=30", "-rss_limit_mb=1024", "-max_len=8192", "-print_final_stats=1"]


def fuzz(program, seconds, folder):
    """One program's whole run: (name, line to print, is it all right)."""
    name = os.path.basename(program)[len(PREFIX):]
    found = os.path.join(folder, name)
    os.makedirs(found, exist_ok=True)
    # The parsers of command lines talk: 3 keeps the fuzzer's own words alone.
    command = [program, "-max_total_time=%d" % seconds, "-artifact_prefix=%s-" % found, *LIMITS, "-close_fd_mask=3", found,
               os.path.join(HERE, "corpus", name)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                              errors="replace", timeout=seconds * 2 + 60)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = "timeout", str(late.stdout)
    runs = re.search(r"stat::number_of_executed_units: *(\d+)", text)
    coverage = re.findall(r"\bcov: (\d+) ft: (\d+) corp: (\d+)", text)
    # No coverage: the program was not instrumented, and has guessed blindly.
    right = code == 0 and runs is not None and int(runs.group(1)) > 0 and coverage and int(coverage[-1][0]) > 0
    line = "%-12s %12s executions, coverage %s edges, %s features, %s inputs: %s" % (
        (name, runs.group(1) if runs else "?") + (coverage[-1] if coverage else ("?", "?", "?")) +
        ("ok" if right else "FAILED",))
    if not right:
        kept = re.findall(r"Test unit written to (\S+)", text)
        line = "%s\n%s\n%s: exit code %s, reproduce with: %s %s" % (
            text[-6000:], line, name, code, program, " ".join(kept) or "(no input was kept)")
    return line, right


def seconds_of_each(programs, most, exceptions):
    """[(program, its seconds)], the longest first. A name that no program has ends it: a misspelt one must not run shorter."""
    named = dict(exception.split("=") for exception in exceptions)
    own = {program: named.pop(os.path.basename(program)[len(PREFIX):], most) for program in programs}
    if named:
        sys.exit("run.py: no program is called %s" % ", ".join(sorted(named)))
    return sorted(((program, int(seconds)) for program, seconds in own.items()), key=lambda pair: (-pair[1], pair[0]))


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: %s FOLDER-OF-THE-PROGRAMS FOLDER-FOR-WHAT-IS-FOUND SECONDS [NAME=SECONDS...]" % sys.argv[0])
    folder = os.path.abspath(sys.argv[2])
    programs = glob.glob(os.path.join(os.path.abspath(sys.argv[1]), PREFIX + "*"))
    runs = seconds_of_each(programs, sys.argv[3], sys.argv[4:])
    if not runs or runs[-1][1] < 1:
        sys.exit("run.py: no programs, or no time to run them")
    workers = min(len(runs), os.cpu_count() or 1)
    print("%d programs, %d at a time, %d to %d s each" % (len(runs), workers, runs[-1][1], runs[0][1]), flush=True)
    good = True
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for line, right in pool.map(lambda run: fuzz(run[0], run[1], folder), runs):
            print(line, flush=True)
            good = good and bool(right)
    sys.exit(0 if good else 1)


main()
