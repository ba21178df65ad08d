#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Says what a build leaves out, by a list, and why.

    left_out.py native BUILD-FOLDER            each entry of emulation.txt must name tests or cases that are there and that run
    left_out.py emulated BUILD-FOLDER          and in an emulated build, none that runs
    left_out.py compared NATIVE BUILD LIST     two builds: the tests that the first one has alone are those that the list names
"""
import fnmatch
import json
import os
import subprocess
import sys

EMULATION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "emulation.txt")
SUITES = ("posix.loopback", "posix.tcp")  # which are told to leave cases out
PAGES = "site."  # tests of a build with the target doc, for which ./dev doc and lint configure


def entries(path):
    """(kind, name, reason) of each line."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                what, reason = line.split("|", 1)
                kind, name = what.split()
                yield kind, name, reason.strip() + (" (%s only)" % kind.partition("@")[2] if "@" in kind else "")


def registered(build):
    """Name -> command of each test that the build would run."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    tests = {}
    for test in json.loads(shown.stdout)["tests"]:
        disabled = any(p["name"] == "DISABLED" and p["value"] for p in test.get("properties", []))
        if not disabled:
            tests[test["name"]] = test.get("command", [])
    return tests


def cases(command, tag):
    """Names of the cases with that tag; the command is a test's, an emulator before it perhaps."""
    end = next(i for i, word in enumerate(command) if os.path.basename(word) == "vipl-conformance") + 1
    shown = subprocess.run(command[:end] + ["--level", "posix", "--list", tag],
                           capture_output=True, text=True, check=False)
    return set(shown.stdout.splitlines()[::2])


def judge_tests(name, native, tests):
    found = fnmatch.filter(tests, name)
    if native:
        return len(found), "" if found else "names no test that runs natively"
    return None, "is run: " + ", ".join(found) if found else ""


def judge_cases(tag, native, tests, names):
    suites = [tests[suite] for suite in SUITES if suite in tests]
    if not suites and not native:
        return 0, ""  # a build without the conformance test
    found = cases(suites[0], tag) if suites else set()
    names |= found
    if not found:
        return 0, "names no case"
    excluded = ["--left-out" in command for command in suites]
    if native:
        return len(found), "is left out natively as well" if any(excluded) else ""
    return len(found), "" if all(excluded) else "is run"


def show(kind, name, number, reason, problem):
    print("  %-32s %4s %s  %s" % (name, "" if number is None else number, kind if kind == "cases" else "tests", reason))
    if problem:
        print("  WRONG: %s %s" % (name, problem))
    return problem != ""


def by_emulation(native, build):
    target = os.path.basename(os.path.normpath(build))  # ./dev cross names the folder so
    tests = registered(build)
    names, count, wrong = set(), 0, 0
    print("left out under emulation:")
    for kind, name, reason in entries(EMULATION):
        if "@" in kind and not native and kind.partition("@")[2] != target:
            continue
        if kind != "cases":
            number, problem = judge_tests(name, native, tests)
        else:
            number, problem = judge_cases(name, native, tests, names)
        wrong += show(kind, name, number, reason, problem)
        count += number if kind != "cases" and number else 0
    print("left out under emulation: %s%d cases of vipl-conformance" % ("%d tests and " % count if native else "the tests above and ",
                                                                        len(names)))
    return wrong


def compared(native, build, path):
    tests, others = registered(native), registered(build)
    tests = {name: command for name, command in tests.items() if not name.startswith(PAGES)}
    missing = set(tests) - set(others)
    listed, names, wrong = set(), set(), 0
    print("left out by %s:" % os.path.basename(path))
    for kind, name, reason in entries(path):
        if kind == "cases":
            number, problem = judge_cases(name, False, others, names)
            wrong += show(kind, name, number, reason, problem)
            continue
        found = set(fnmatch.filter(missing, name))
        runs = fnmatch.filter(others, name)
        problem = "is run: " + ", ".join(runs) if runs else "" if found else "names no test that is left out"
        wrong += show(kind, name, len(found), reason, problem)
        listed |= found
    for name in sorted(missing - listed):
        print("  WRONG: %s is left out, and no line says so" % name)
        wrong += 1
    print("left out by %s: %d of %d tests, and %d cases of vipl-conformance in the others" %
          (os.path.basename(path), len(missing), len(tests), len(names)))
    return wrong


def main(arguments):
    if len(arguments) == 2 and arguments[0] in ("native", "emulated"):
        return 1 if by_emulation(arguments[0] == "native", arguments[1]) else 0
    if len(arguments) == 4 and arguments[0] == "compared":
        return 1 if compared(*arguments[1:]) else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
