#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Says what is left out under emulation, and why (emulation.txt).

    emulation.py native|emulated BUILD-FOLDER

In a native build each entry must name tests or cases that are there and that run; in an emulated one, none that runs.
"""
import fnmatch
import json
import os
import subprocess
import sys

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "emulation.txt")
SUITES = ("posix.loopback", "posix.tcp")  # which are told to leave cases out


def entries():
    """(kind, name, reason) of each line."""
    with open(LIST, encoding="utf-8") as file:
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


def main(arguments):
    if len(arguments) != 2 or arguments[0] not in ("native", "emulated"):
        sys.exit(__doc__)
    native = arguments[0] == "native"
    target = os.path.basename(os.path.normpath(arguments[1]))  # ./dev cross names the folder so
    tests = registered(arguments[1])
    names, count, wrong = set(), 0, 0
    print("left out under emulation:")
    for kind, name, reason in entries():
        if "@" in kind and not native and kind.partition("@")[2] != target:
            continue
        if kind != "cases":
            number, problem = judge_tests(name, native, tests)
        else:
            number, problem = judge_cases(name, native, tests, names)
        wrong += problem != ""
        count += number if kind != "cases" and number else 0
        print("  %-32s %4s %s  %s" % (name, "" if number is None else number, kind if kind == "cases" else "tests", reason))
        if problem:
            print("  WRONG: %s %s" % (name, problem))
    print("left out under emulation: %s%d cases of vipl-conformance" % ("%d tests and " % count if native else "the tests above and ",
                                                                        len(names)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
