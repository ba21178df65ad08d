#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what ninja has to build before tests can run: the programs in the commands of the tests that ctest would choose, and those that a test
names as its needs (NEEDS of vipl_test() in cmake/vipl_tests.cmake).

    test_programs.py BUILD-FOLDER CTEST-ARGUMENTS...

The names are paths in the build folder, as ninja has them.
"""
import json
import os
import subprocess
import sys


def chosen(arguments):
    """The tests, as ctest describes them; tests that set something up for a chosen one are among them."""
    shown = subprocess.run(["ctest", "--show-only=json-v1"] + arguments, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    start = shown.stdout.find("{")
    if start < 0:
        sys.exit(shown.stdout or "test_programs: ctest says nothing")
    return json.loads(shown.stdout[start:])["tests"]


def words(test):
    """What a test names: the words of its command, and the files without which it cannot run."""
    yield from test.get("command", [])
    for each in test.get("properties", []):
        if each["name"] == "REQUIRED_FILES":
            yield from each["value"]


def outputs(folder):
    """What ninja can build, but for names that stand for other names."""
    shown = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    pairs = (line.rpartition(": ") for line in shown.stdout.splitlines())
    return {name for name, _, rule in pairs if rule != "phony"}


def main(folder, arguments):
    named = {os.path.relpath(word, folder) for test in chosen(arguments) for word in words(test) if os.path.isabs(word)}
    print("\n".join(sorted(named & outputs(folder))))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
