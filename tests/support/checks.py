# SPDX-License-Identifier: MIT
"""Counts what a test script checks: a failure is printed and the script goes on; finish() ends it."""
import sys


class Checks:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def that(self, right, what):
        self.count += 1
        if not right:
            self.failed += 1
            print("FAILED: " + what)

    def finish(self):
        print("%d checks, %d failed" % (self.count, self.failed))
        sys.exit(1 if self.failed else 0)
