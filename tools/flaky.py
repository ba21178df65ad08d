#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests several times beside busy loops, three for each CPU, and prints how often each failed.

    flaky.py [--to FOLDER] N -- CTEST-ARGUMENTS...

What a failed test said is kept in FOLDER (build/flaky), a file for each failure. The exit code is 1 if anything failed.
"""
import argparse
import io
import os
import shutil
import subprocess
import sys

import run_tests

LOOPS_PER_CPU = 3


class Load:
    """Busy loops beside what runs in its block."""

    def __enter__(self):
        self.loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(LOOPS_PER_CPU * (os.cpu_count() or 1))]

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--to", default=os.path.join(run_tests.TOP, "build", "flaky"))
    parser.add_argument("runs", type=int)
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options, arguments = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]
    shutil.rmtree(options.to, ignore_errors=True)
    os.makedirs(options.to)
    failures, ran = {}, {}
    with Load():
        for number in range(1, options.runs + 1):
            print("flaky: run %d of %d" % (number, options.runs), flush=True)
            tests, _ = run_tests.ctest(arguments, os.path.join(options.to, "tests.xml"), io.StringIO())
            for test in tests.values():
                ran[test.name] = ran.get(test.name, 0) + (test.kind in ("passed", "failed"))
                if test.kind == "failed":
                    path = os.path.join(options.to, "%s.%d.txt" % (test.name.replace("/", "_"), number))
                    test.write(path)
                    failures.setdefault(test.name, []).append((test.grave(), test.cause(), os.path.relpath(path, run_tests.TOP)))
    print("\nflaky: %d tests, %d runs, %d busy loops for each CPU" % (len(ran), options.runs, LOOPS_PER_CPU))
    for name, which in sorted(failures.items(), key=lambda item: -len(item[1])):
        print("%3d of %d  %s" % (len(which), ran[name], name))
        for grave, cause, path in which:
            print("    %s%s (%s)" % (grave + ": " if grave else "", cause, path))
    print("flaky: %d tests failed at least once" % len(failures) if ran else "flaky: there was no test")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
