# SPDX-License-Identifier: MIT
"""tests/support/limit.py ends a test that runs or hangs for too long, not one that others keep from running: test_limit.py"""
import contextlib
import io
import os
import subprocess
import sys
import time

support = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, support)
import limit  # noqa: E402
from checks import Checks  # noqa: E402

SPIN = "while True: pass"
WAIT = "import signal; signal.pause()"
checks = Checks()


def limited(seconds, program):
    return subprocess.run([sys.executable, os.path.join(support, "limit.py"), str(seconds), sys.executable, "-c", program],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)


def spinners():
    """Nothing of the machine is left."""
    return [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2 * len(os.sched_getaffinity(0)))]


def is_ended(what, status, out):
    checks.that(status == 1 and "1 s of the test's own time are over" in out, "who %s is ended: %s" % (what, out))
    checks.that("python" in out, "and named: " + out)


def limited_beside_an_idle_cpu(program):
    """Whatever else the machine does."""
    limit.idle_seconds = time.monotonic
    sys.argv = ["limit.py", "1", sys.executable, "-c", program]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        return limit.main(), out.getvalue()


for what, program, status in (("success", "pass", 0), ("a failure", "raise SystemExit(3)", 3), ("skipped", "raise SystemExit(77)", 77),
                              ("a signal", "import os; os.kill(os.getpid(), 15)", -15)):
    result = limited(60, program)
    checks.that(result.returncode == status, "%s is the test's own: %d" % (what, result.returncode))
is_ended("hangs", *limited_beside_an_idle_cpu(WAIT))
others = spinners()
for what, program in (("runs beside others", SPIN),
                      ("has a child that runs", "import subprocess, sys; subprocess.run([sys.executable, '-c', '%s'])" % SPIN)):
    result = limited(1, program)
    is_ended(what, result.returncode, result.stdout)
result = limited(1, "import time; time.sleep(4)")  # longer than the limit, but it could not have run
checks.that(result.returncode == 0, "who waits while others have the machine is not ended: " + result.stdout)
result = limited(60, "import os; print(os.environ['VIPL_TEST_TIMEOUT_SCALE'])")
checks.that(int(result.stdout) >= 2, "and allows itself more, for two wait for each CPU: " + result.stdout)
for one in others:
    one.kill()
    one.wait()
checks.finish()
