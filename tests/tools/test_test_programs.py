#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/test_programs.py finds the programs of the chosen tests, and no others: those in a command, those that a test needs, those of a test
that sets something up; not what ninja does not build."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NINJA = """rule make
  command = touch $out
build bin/plain: make
build bin/needed: make
build bin/setup: make
build bin/other: make
build all: phony bin/plain bin/needed bin/setup bin/other
"""
CTEST = """add_test(plain sh "%(here)s/bin/plain" "%(here)s/file" "%(here)s/all" bin/other)
add_test(needs sh "%(here)s/bin")
set_tests_properties(needs PROPERTIES REQUIRED_FILES "%(here)s/bin/needed" LABELS some)
add_test(setup "%(here)s/bin/setup")
set_tests_properties(setup PROPERTIES FIXTURES_SETUP thing)
add_test(depends sh "%(here)s/bin/plain")
set_tests_properties(depends PROPERTIES FIXTURES_REQUIRED thing LABELS some)
"""


def programs(folder, *arguments):
    command = [os.path.join(TOP, "tools", "test_programs.py"), folder, "--test-dir", folder, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=True).stdout.split()


with tempfile.TemporaryDirectory() as here:
    here = os.path.realpath(here)
    os.mkdir(os.path.join(here, "bin"))
    for name in ("plain", "needed", "setup", "other"):
        with open(os.path.join(here, "bin", name), "w", encoding="utf-8") as file:
            os.chmod(file.name, 0o755)
    with open(os.path.join(here, "build.ninja"), "w", encoding="utf-8") as file:
        file.write(NINJA)
    with open(os.path.join(here, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        file.write(CTEST % {"here": here})
    for arguments, expected in ((["-R", "^plain$"], ["bin/plain"]), (["-R", "^needs$", "-j", "3"], ["bin/needed"]),
                                (["-L", "^some$"], ["bin/needed", "bin/plain", "bin/setup"]), (["-R", "^none$"], []),
                                ([], ["bin/needed", "bin/plain", "bin/setup"])):
        found = programs(here, *arguments)
        if found != expected:
            sys.exit("FAILED %s: %s, not %s" % (arguments, found, expected))
