# SPDX-License-Identifier: MIT
"""Commands as they would be typed, and what they print: a transcript on standard output, with checks."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from checks import Checks  # noqa: E402

LIMIT_S = 250 * int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))  # below that of the test


class Transcript(Checks):
    def __init__(self, folder, environment):
        super().__init__()
        self.folder = folder
        self.environment = environment

    def sh(self, command, code=0, expect=(), **more):
        """Types it. It must end with that code, and say those texts."""
        done = subprocess.run(["sh", "-c", command], cwd=self.folder, env=dict(self.environment, **more), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=LIMIT_S, check=False)
        words = "".join("%s=%s " % each for each in more.items())
        print("$ %s%s\n%s" % (words, command, done.stdout), end="", flush=True)
        self.that(done.returncode == code, "%s: exit code %d, not %d" % (command, done.returncode, code))
        for text in expect:
            self.that(text in done.stdout, "%s: it does not say: %s" % (command, text))
