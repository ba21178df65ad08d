# SPDX-License-Identifier: MIT
"""Many connections that wait: what each takes of memory at either end, and that no end wakes. Many connects and closes: nothing is left of them.

As idle.py it lets a window of time pass, in which nothing may happen.
"""
import os
import re
import resource
import subprocess
import time

from harness import cannot_run, text_of, wakings

KIB_EACH = 32
SPARE_KIB = 4096  # for what a heap keeps
WINDOW_S = 3


def in_status(pid, name):
    """A number of /proc/PID/status."""
    return int(re.search(r"^%s:\s+(\d+)" % name, text_of("/proc/%d/status" % pid), re.M).group(1))


class Held:
    """What a process holds."""

    def __init__(self, pid):
        self.descriptors = len(os.listdir("/proc/%d/fd" % pid))
        self.maps = text_of("/proc/%d/maps" % pid).count("\n")
        self.kib = in_status(pid, "VmRSS")

    def __str__(self):
        return "%d descriptors, %d mappings, %d KiB" % (self.descriptors, self.maps, self.kib)


def shared_files(machine):
    """What is in the runtime folder. Memory that processes share has no names (memfd)."""
    return sorted(os.listdir(machine.runtime))


def started(machine):
    port = machine.port()
    server = machine.start("server", *machine.peer("select_echo.py", port))
    machine.await_port(server, port)
    return server, port


def waiting(machine, count):
    server, port = started(machine)
    alone = Held(server.pid)
    client = machine.start("client", *machine.peer("open_many.py", port, count, "78"), stdin=subprocess.PIPE)
    client.wait_text("open")
    one = machine.start("client", *machine.peer("open_many.py", port, 1, "78"), stdin=subprocess.PIPE)
    one.wait_text("open")
    for name, each, before in (("server", server, alone), ("client", client, Held(one.pid))):
        now = Held(each.pid)
        kib = (now.kib - before.kib) / count
        print("the %s of %d connections: %s; %.1f KiB each" % (name, count, now, kib))
        machine.checks.that(kib <= KIB_EACH, "the %s has %.1f KiB for each connection, %d at most" % (name, kib, KIB_EACH))
    before = [wakings(each.pid) for each in (server, client)]
    time.sleep(WINDOW_S)
    after = [wakings(each.pid) for each in (server, client)]
    machine.checks.that(before == after, "nothing happens, and the ends have woken: %s, %s" % (before, after))
    for each in (client, one):
        each.popen.stdin.close()
        machine.checks.that(each.wait() == 0, "the client ends: " + each.told())
    machine.checks.that(server.stop() == 0, "the server ends: " + server.told())


def churn(machine, count):
    server, port = started(machine)
    client = machine.start("client", *machine.peer("churn.py", port, count), stdin=subprocess.PIPE)
    client.wait_text("warm")
    before, files = [Held(each.pid) for each in (server, client)], shared_files(machine)
    client.popen.stdin.write(b"\n")
    client.popen.stdin.flush()
    client.wait_text("over")
    for name, each, then in zip(("server", "client"), (server, client), before):
        now = Held(each.pid)
        print("the %s: %s; %d connections later: %s" % (name, then, count - count // 10, now))
        machine.checks.that(now.descriptors <= then.descriptors + 2 and now.maps <= then.maps + 8 and now.kib <= then.kib + SPARE_KIB,
                            "the %s holds more after %d connections: %s, before %s" % (name, count, now, then))
    machine.checks.that(shared_files(machine) == files, "files are left: %s, before %s" % (shared_files(machine), files))
    client.popen.stdin.close()
    machine.checks.that(client.wait() == 0, "the client ends: " + client.told())
    machine.checks.that(server.stop() == 0, "the server ends: " + server.told())


def run(machine, _options):
    idle, closed = (10000, 50000) if machine.full else (500, 2000)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit < idle + 100:
        cannot_run("a process may have %d descriptors here" % limit)
    waiting(machine, idle)
    churn(machine, closed)
    machine.check_moved(idle + 1 + closed)
