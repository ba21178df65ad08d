#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and tests the library for each CPU of cmake/targets.txt: ./dev cross all.

    cross_matrix.py [--quick] [TARGET...]

Prints a table of targets and of what runs there. A run that is not quick writes it into docs/use/targets.md, with what is left out and why; of
targets that are not named it has the last run's results. --quick: the pair with a native program, what both send, old programs and layouts. The exit code is 1 if anything fails.
"""
import argparse
import concurrent.futures
import os
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Of tests/, what the table's columns do not need; and those of a quick run.
WITHOUT = "adapter;counts;cpp;devices;fuzz;model;package;robustness;tools"
WITHOUT_QUICK = "adapter;conformance;counts;cpp;devices;fuzz;model;posix;robustness;tools;unit"
COLUMNS = (  # heading, tests, those of a quick run
    ("unit", r"unit\..*", None),
    ("conformance, loopback", r"conformance\.loopback\..*", None),
    ("conformance, tcp", r"conformance\.tcp\..*", None),
    ("pair with native, tcp", r"interop\.(endian|wire)", r"interop\.(endian|wire)"),
    ("old programs, layouts", None, r"abi\.(layout|old\..*)"),
)


def columns_of(quick):
    return [column for column in COLUMNS if column[2 if quick else 1]]


def table_lines():
    """(target, triplet, emulator, bits, order, flags, what it is here for) of each line."""
    with open(os.path.join(TOP, "cmake", "targets.txt"), encoding="utf-8") as file:
        return [line.split(None, 6) for line in file if line.strip() and not line.startswith("#")]


def left_out():
    """(name, reason) of each test that an emulator is not given, and of each tag of cases."""
    with open(os.path.join(TOP, "tests", "emulation.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                what, reason = line.split("|", 1)
                kind, name = what.split()
                yield name, reason.strip() + (" (%s only)" % kind.partition("@")[2] if "@" in kind else "")


def results_of(target, quick):
    return os.path.join(TOP, "build", target, "results", "quick.xml" if quick else "matrix.xml")


def read(results):
    """Name -> whether it passed, of each test that was run."""
    return {case.get("name"): case.get("status") == "run" for case in xml.parse(results).iter("testcase")}


def run(target, quick):
    """As read(); None if it does not build."""
    results = results_of(target, quick)
    if os.path.exists(results):
        os.remove(results)
    names = "|".join(column[2 if quick else 1] for column in columns_of(quick))
    os.makedirs(os.path.join(TOP, "build"), exist_ok=True)
    log = os.path.join(TOP, "build", "matrix-%s.log" % target)
    with open(log, "w", encoding="utf-8") as out:
        code = subprocess.run([os.path.join(TOP, "dev"), "cross", target, "-DVIPL_TEST_WITHOUT=" + (WITHOUT_QUICK if quick else WITHOUT), "--output-junit", results,
                               "-R", "^(%s)$" % names, "-j", str(3 * (os.cpu_count() or 1))],
                              stdout=out, stderr=subprocess.STDOUT, check=False, cwd=TOP).returncode
    if code != 0:
        print("%s: %s says why. It ends:" % (target, os.path.relpath(log, TOP)))
        with open(log, encoding="utf-8", errors="replace") as text:
            print("".join(line for line in text if not re.search(r"Test +#.*Passed|^ +Start ", line))[-4000:])
    return read(results) if os.path.exists(results) else None


def cases(target, name):
    """The cases of a run of the conformance test: passed, left out."""
    path = os.path.join(TOP, "build", target, "results", name.split(".", 1)[1] + ".xml")
    if not os.path.exists(path):
        return 0, 0
    all_cases = list(xml.parse(path).iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in all_cases)
    return len(all_cases) - skipped - sum(case.find("failure") is not None for case in all_cases), skipped


def cell(target, results, pattern):
    """What a column says: tests, and cases where they have some."""
    mine = {name: good for name, good in results.items() if re.fullmatch(pattern, name)}
    failed = sorted(name for name, good in mine.items() if not good)
    if failed or not mine:
        return "FAILED: " + (", ".join(failed) or "none was run")
    counts = [cases(target, name) for name in mine if name.startswith("conformance.")]
    if not counts:
        return "%d test%s" % (len(mine), "" if len(mine) == 1 else "s")
    return "%d cases (%d skipped)" % (sum(count[0] for count in counts), sum(count[1] for count in counts))


def cells(target, results, quick):
    if results is None:
        return ["does not build"] + ["-"] * len(columns_of(quick))
    return ["yes"] + [cell(target, results, column[2 if quick else 1]) for column in columns_of(quick)]


def row(fact, quick):
    start = time.monotonic()
    print("%s: builds and runs" % fact[0], flush=True)
    columns = cells(fact[0], run(fact[0], quick), quick)
    print("%s: %s, %.0f s" % (fact[0], "; ".join(columns), time.monotonic() - start), flush=True)
    return columns


def version(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.splitlines()[0]


def table(rows, quick):
    columns = columns_of(quick)
    lines = ["| target | bits | byte order | builds | %s |" % " | ".join(column[0] for column in columns),
             "|---|---|---|---|" + "---|" * len(columns)]
    lines += ["| %s | %s | %s | %s |" % (fact[0], fact[3], fact[4], " | ".join(columns)) for fact, columns in rows]
    return "\n".join(lines)


def document(rows):
    text = ["# Other CPUs\n",
            "`./dev cross TARGET` builds the library and its tests for another CPU and runs them, under QEMU's user emulation where",
            "this machine's kernel does not run its programs. `./dev cross all` does that for all of them, prints this table and",
            "writes this file. Skipped cases do not apply to the device, or are left out under emulation (below); each run names them",
            "with the reason.\n",
            "By %s and\n%s, on %s.\n" % (version(rows[0][0][1] + "-gcc", "--version"), version("qemu-aarch64-static", "--version"),
                                       platform.machine()), table(rows, False), "",
            "## What each is here for\n"]
    text += ["- %s: %s." % (fact[0], fact[6].strip()) for fact, _ in rows]
    text += ["", "## What is left out under emulation, and why\n",
             "Each of these runs on this machine's own CPU (`style.emulation` looks after that). i386 is not emulated: nothing is left",
             "out.\n",
             "| tests, or [cases] | reason |", "|---|---|"]
    text += ["| `%s` | %s |" % entry for entry in left_out()]
    with open(os.path.join(TOP, "docs", "use", "targets.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="./dev cross all")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    unknown = set(options.targets) - {fact[0] for fact in table_lines()}
    if unknown:
        parser.error("no target: %s" % ", ".join(sorted(unknown)))
    chosen = [fact for fact in table_lines() if not options.targets or fact[0] in options.targets]
    rows = [(fact, row(fact, options.quick)) for fact in chosen[:1]]  # it builds this machine's tools, too
    with concurrent.futures.ThreadPoolExecutor(2) as two:  # much of a build waits for one configuration
        rows += zip(chosen[1:], two.map(lambda fact: row(fact, options.quick), chosen[1:]))
    print(table(rows, options.quick))
    known = dict((fact[0], columns) for fact, columns in rows)
    others = [fact[0] for fact in table_lines() if fact[0] not in known]
    if not options.quick and all(os.path.exists(results_of(target, False)) for target in others):
        known.update((target, cells(target, read(results_of(target, False)), False)) for target in others)
        document([(fact, known[fact[0]]) for fact in table_lines()])
    bad = any(text.startswith(("FAILED", "does not")) for _, columns in rows for text in columns)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
