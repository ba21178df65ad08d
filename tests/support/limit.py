#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a test with a time limit that other programs' load does not use up.

    limit.py SECONDS PROGRAM [ARGUMENT...]

A second counts as far as the test's processes ran, or a CPU had nothing to do and they might have run: on a machine with nobody else on
it that is the clock's second. Where the system does not tell (/proc/stat), a quarter of each counts. Over the limit the processes are listed,
and killed; so they are when one case of theirs takes too long (case_watch.py). What the test allows itself inside is stretched to what waits for each CPU as it starts: VIPL_TEST_TIMEOUT_SCALE.
"""
import atexit
import os
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # python3 -I
from case_watch import CaseWatch  # noqa: E402

INTERVAL_S = 1
UNKNOWN_SHARE = 0.25  # of a second, where nobody knows who had it
MAX_STRETCH = 50
WORTH_A_LINE = 0.25   # of the limit
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """Of a process: its name and state, and the seconds it and its children that were waited for have run."""
    with open("/proc/%s/stat" % pid) as file:
        text = file.read()
    name = text[text.index("(") + 1:text.rindex(")")]
    fields = text[text.rindex(")") + 2:].split()
    return {"name": name, "state": fields[0], "threads": int(fields[17]),
            "ran": sum(map(int, fields[11:15])) / TICKS_PER_S}


def children_of(pid):
    """Those of each of its threads."""
    found = []
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/children" % (pid, thread)) as file:
                found += map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread ended: another one of the process has its children
    return found


def processes_of(root):
    """`root` and all below it: pid -> stat_of()."""
    found, left = {}, [root]
    while left:
        pid = left.pop()
        try:
            found[pid] = stat_of(pid)
            left += children_of(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended
    return found


def idle_seconds():
    """In which CPUs had nothing to do, of all of them together."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / TICKS_PER_S


class OwnTime:
    """The test's seconds so far."""

    def __init__(self, root):
        self.root = root
        self.spent = self.passed = 0.0
        self.known = os.path.exists("/proc/stat") and os.path.exists("/proc/self/task/%d/children" % os.getpid())
        self.clock = time.monotonic()
        self.ran, self.idle = 0.0, idle_seconds() if self.known else 0.0

    def look(self):
        clock = time.monotonic()
        passed, self.clock = clock - self.clock, clock
        self.passed = passed
        if not self.known:
            self.spent += passed * UNKNOWN_SHARE
            return
        ran, idle = sum(stat["ran"] for stat in processes_of(self.root).values()), idle_seconds()
        self.spent += min(passed, max(ran - self.ran, idle - self.idle, 0))
        self.ran, self.idle = ran, idle


def runnable():
    """How many run or wait for a CPU; 0 where the system does not tell."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].split("/")[0])
    except FileNotFoundError:
        return 0


def stretched():
    """The test's environment."""
    environment = dict(os.environ)
    environment.pop("VIPL_TEST_COSTS", None)  # a test of this program is one test
    scale, slowness = (int(environment.get(name, "1")) for name in ("VIPL_TEST_TIMEOUT_SCALE", "VIPL_TEST_SLOWNESS"))
    crowd = min(runnable() // (os.cpu_count() or 1), MAX_STRETCH)
    environment.setdefault("VIPL_TEST_SLOWNESS", str(slowness))
    environment["VIPL_TEST_TIMEOUT_SCALE"] = str(max(scale, slowness * crowd))
    return environment


def has_ended(test, seconds):
    try:
        test.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def kill(test, own, why):
    print("HUNG: limit.py: " + why, flush=True)
    tree = processes_of(test.pid) if own.known else {}
    for pid, stat in sorted(tree.items()):
        print("    %7d %-16s %s, %d threads, ran %.1f s" % (pid, stat["name"], stat["state"], stat["threads"], stat["ran"]))
    for pid in [test.pid] + list(tree):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    test.wait()
    return 1


def tell_cost(seconds):
    """Adds a line to the file of costs: seconds of CPUs that the test's processes had, seconds by the clock, its name."""
    path = os.environ.get("VIPL_TEST_COSTS")
    if path:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(path, "a") as file:
            file.write("%.2f %.2f %s\n" % (used.ru_utime + used.ru_stime, seconds, os.environ.get("VIPL_TEST_NAME", sys.argv[2])))


def end_like(test):
    """The status is the test's, a signal too."""
    if test.returncode < 0:
        print("CRASHED: limit.py: ended by signal %d (%s)" % (-test.returncode, signal.strsignal(-test.returncode)), flush=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -test.returncode not in (signal.SIGKILL, signal.SIGSTOP):  # which have no handlers
            signal.signal(-test.returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -test.returncode)
    return test.returncode


def main():
    limit = float(sys.argv[1])
    watch = CaseWatch()
    atexit.register(watch.end)
    try:
        test = subprocess.Popen(sys.argv[2:], env=dict(stretched(), VIPL_TEST_CASE=watch.path))
    except OSError as error:
        sys.exit("FAILED: limit.py: %s: %s" % (sys.argv[2], error.strerror))
    own = OwnTime(test.pid)
    start = own.clock
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(kill(test, own, "asked to end")))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the test gets it as well
    while not has_ended(test, INTERVAL_S):
        own.look()
        hung = watch.look(own.passed, own.spent, processes_of(test.pid)) if own.known else None
        if hung is not None:
            watch.tell_threads(processes_of(test.pid))
            return kill(test, own, hung)
        if own.spent > limit:
            return kill(test, own, "%.0f s of the test's own time are over; by the clock %.0f s" % (limit, own.clock - start))
    watch.end()
    tell_cost(time.monotonic() - start)
    if own.spent > WORTH_A_LINE * limit:
        print("limit.py: %.0f of %.0f s" % (own.spent, limit))
    return end_like(test)


if __name__ == "__main__":
    sys.exit(main())
