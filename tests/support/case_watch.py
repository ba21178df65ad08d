# SPDX-License-Identifier: MIT
"""For limit.py: a case of a test program that hangs is ended long before the time of its program is over.

The program writes the running case into a file, beside the seconds that it may take (catch2/run.cpp). They count as those of
limit.py's own time do; where all threads of the test sleep, a quarter of each second does in any case, however busy other programs are.
"""
import os
import shutil
import subprocess
import tempfile

ASLEEP_SHARE = 0.25
MAX_STACKS = 8     # processes
STACKS_S = 30       # for a debugger to tell them


def threads_of(pids):
    """Yields pid, thread number, name, state and where it waits in the kernel."""
    for pid in pids:
        try:
            for thread in sorted(os.listdir("/proc/%d/task" % pid), key=int):
                folder = "/proc/%d/task/%s/" % (pid, thread)
                with open(folder + "stat") as file:
                    text = file.read()
                with open(folder + "wchan") as file:
                    place = file.read()
                yield pid, int(thread), text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2], place
        except OSError:
            pass  # it ended


def all_sleep(pids):
    return all(state not in "RD" for _, _, _, state, _ in threads_of(pids))


def stacks_of(pid):
    """Of each thread; lines, none where no debugger can tell them."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return []
    command = [gdb, "-p", str(pid), "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all backtrace 16"]
    try:
        out = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=STACKS_S, check=False)
    except subprocess.TimeoutExpired:
        return []
    return [line for line in out.stdout.splitlines() if line.startswith(("#", "Thread "))]


class CaseWatch:
    def __init__(self):
        handle, self.path = tempfile.mkstemp(prefix="vipl-case-")
        os.close(handle)
        self.line, self.spent, self.before = "", 0.0, 0.0

    def end(self):
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def look(self, passed, own, pids):
        """After so many seconds by the clock and of the test's own time. Returns what is wrong, or None."""
        with open(self.path, errors="replace") as file:
            line = file.read()
        more, self.before = own - self.before, own
        if line != self.line:  # another case, or none
            self.line, self.spent = line, 0.0
            return None
        fields = line.rstrip("\n").split(" ", 2)  # number, seconds, name
        if not line.endswith("\n") or not fields[-1]:
            return None
        self.spent += max(more, ASLEEP_SHARE * passed if all_sleep(pids) else 0)
        return "the case \"%s\" does not end in %s s" % (fields[2], fields[1]) if self.spent > float(fields[1]) else None

    @staticmethod
    def tell_threads(pids):
        for thread in threads_of(pids):
            print("    %7d %7d %-16s %s %s" % thread)
        for pid in list(pids)[:MAX_STACKS]:
            for line in stacks_of(pid):
                print("    %7d %s" % (pid, line[:200]), flush=True)
