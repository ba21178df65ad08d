# SPDX-License-Identifier: MIT
"""tests/support/limit.py ends a test, or a case of one, that runs or hangs for too long, not one that others keep from running: test_limit.py"""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import types

support = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, support)
import case_watch  # noqa: E402
import limit  # noqa: E402
from checks import Checks  # noqa: E402

SPIN = "while True: pass"
SPIN_BELOW = "import subprocess, sys; subprocess.run([sys.executable, '-c', '%s'])" % SPIN
WAIT = "import signal; signal.pause()"
IN_CASE = "import os, signal; open(os.environ['VIPL_TEST_CASE'], 'w').write('1 1 a case that hangs\\n'); signal.pause()"
checks = Checks()


def status_of(program):
    return subprocess.run([sys.executable, os.path.join(support, "limit.py"), "60", sys.executable, "-c", program], check=False).returncode


def is_ended(what, program, idle):
    """A limit of one second, on a machine whose idle time `idle` tells, whatever else this one does."""
    limit.idle_seconds = idle
    sys.argv = ["limit.py", "1", sys.executable, "-c", program]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = limit.main()
    checks.that(status == 1 and "HUNG: limit.py: 1 s of the test's own time are over" in out.getvalue(), "who %s is ended: %s" % (what, out.getvalue()))
    checks.that("python" in out.getvalue(), "and named: " + out.getvalue())


def case_is_ended(what, idle):
    """A case of one second, in a program that has a minute."""
    limit.idle_seconds = idle
    sys.argv = ["limit.py", "60", sys.executable, "-c", IN_CASE]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = limit.main()
    checks.that(status == 1 and 'the case "a case that hangs" does not end in 1 s' in out.getvalue(), "%s: %s" % (what, out.getvalue()))
    checks.that("python" in out.getvalue() and " S " in out.getvalue(), "its threads are told: " + out.getvalue())


def case_spent(lines, asleep):
    """Whether a case is over its ten seconds when the program has had each of these lines for five of its own, of forty by the clock."""
    case_watch.all_sleep = lambda _: asleep
    watch = case_watch.CaseWatch()
    over = None
    for count, line in enumerate(lines, 1):
        with open(watch.path, "w") as file:
            file.write(line)
        over = watch.look(40, 5 * count, []) is not None
    watch.end()
    return over


def spent(passed, ran, idle):
    """Of the test's own time, while so many seconds passed, its processes ran and CPUs had nothing to do."""
    clock = types.SimpleNamespace(monotonic=lambda: now["passed"])
    now = {"passed": 100, "ran": 0, "idle": 50}
    real, limit.time = limit.time, clock
    limit.idle_seconds = lambda: now["idle"]
    listed, limit.processes_of = limit.processes_of, lambda _: {1: {"ran": now["ran"]}}
    own = limit.OwnTime(1)
    now = {"passed": 100 + passed, "ran": ran, "idle": 50 + idle}
    own.look()
    limit.time, limit.processes_of = real, listed
    return own.spent


def cost_of(program):
    """The lines of the file of costs, as words."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "costs")
        subprocess.run([sys.executable, os.path.join(support, "limit.py"), "60", sys.executable, "-c", program],
                       env=dict(os.environ, VIPL_TEST_COSTS=path, VIPL_TEST_NAME="a.test"), check=True)
        with open(path) as file:
            return [line.split() for line in file]


for what, program, status in (("success", "pass", 0), ("a failure", "raise SystemExit(3)", 3), ("skipped", "raise SystemExit(77)", 77),
                              ("a signal", "import os; os.kill(os.getpid(), 15)", -15), ("a kill", "import os; os.kill(os.getpid(), 9)", -9)):
    checks.that(status_of(program) == status, "%s is the test's own" % what)
is_ended("hangs", WAIT, limit.time.monotonic)
is_ended("runs beside others", SPIN, lambda: 0)
is_ended("has a child that runs beside others", SPIN_BELOW, lambda: 0)
for arguments, expected in (((10, 0, 0), 0), ((10, 3, 0), 3), ((10, 0, 7), 7), ((10, 3, 7), 7), ((10, 20, 0), 10), ((10, 0, 20), 10)):
    checks.that(spent(*arguments) == expected, "passed, ran, idle %s: %s" % (arguments, spent(*arguments)))
case_is_ended("a case that hangs is ended before its program", limit.time.monotonic)
case_is_ended("beside programs that leave no CPU idle as well", lambda: 0)
ONE, TWO, NONE, HALF = "1 10 one\n", "2 10 two\n", "3 10 \n", "1 10 on"
for lines, asleep, expected in (([ONE] * 3, False, False), ([ONE] * 4, False, True), ([ONE, ONE], True, False), ([ONE, ONE, ONE], True, True),
                                ([ONE, ONE, TWO, TWO], False, False), ([NONE] * 9, True, False), ([HALF] * 9, True, False), ([""] * 9, True, False)):
    checks.that(case_spent(lines, asleep) == expected, "a case over its time: %s, asleep %s" % (lines, asleep))
half_a_second = "import time\nwhile time.process_time() < 0.5: pass"
below = "import os, subprocess, sys; assert 'VIPL_TEST_COSTS' not in os.environ; subprocess.run([sys.executable, '-c', %r])" % half_a_second
for what, program in (("a test", half_a_second), ("a child of a test", below)):
    cost = cost_of(program)
    checks.that(len(cost) == 1 and cost[0][2] == "a.test" and 0.5 <= float(cost[0][0]) < 5, "what %s has of CPUs is told: %s" % (what, cost))
limit.runnable = lambda: 9 * os.cpu_count()
os.environ.update(VIPL_TEST_TIMEOUT_SCALE="8", VIPL_TEST_SLOWNESS="2")
checks.that(limit.stretched()["VIPL_TEST_TIMEOUT_SCALE"] == "18", "nine wait for each CPU, of programs that are twice as slow")
limit.runnable = lambda: 0
checks.that(limit.stretched()["VIPL_TEST_TIMEOUT_SCALE"] == "8", "nobody waits")
checks.finish()
