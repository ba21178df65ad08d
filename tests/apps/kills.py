# SPDX-License-Identifier: MIT
"""kill -9 of either side while frames travel: the other sees ECONNRESET, EPIPE or the end of the stream, as over TCP, and no frame that is wrong.

    apps.py BUILD kills ENDS [COUNT]

Each fifth connection is left alone, and all its frames and its end must come.
"""
import os
import re
import signal

from harness import wait_until

FEW, MANY = 20, 500
ENDLESS, SOME = 1000000000, 40


def line_of(process, number, word):
    """The rest of the line "NUMBER WORD ..." that a process has printed."""
    found = re.search(r"^%d %s (.*)$" % (number, word), process.out, re.M)
    return found.group(1).split() if found else None


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class Round:
    """One connection."""

    def __init__(self, machine, server, port, number):
        self.machine, self.server, self.number = machine, server, number
        self.up = number % 2 == 0
        self.is_killed = number % 5 != 4
        self.client_dies = number // 2 % 2 == 0
        self.client = machine.start("client", *machine.peer("frames.py", "connect", port, number, "up" if self.up else "down",
                                                             ENDLESS if self.is_killed else SOME))
        self.what = "connection %d, %s, %s" % (number, "the client sends" if self.up else "the server sends",
                                               "nobody is killed" if not self.is_killed else "the client is killed" if self.client_dies
                                               else "the server is killed")

    def await_line(self, process, word):
        return wait_until("%s: %s" % (self.what, word), lambda: line_of(process, self.number, word))

    def run(self):
        if not self.is_killed:
            for process in (self.client, self.server):
                how, frames = self.await_line(process, "end")
                self.machine.checks.that((how, frames) == ("whole", str(SOME)), "%s: %s after %s frames" % (self.what, how, frames))
            return
        victim, other = (self.client, self.server) if self.client_dies else (self.server, self.client)
        self.await_line(other, "at")
        pid = int(self.await_line(victim, "at")[0])
        os.kill(pid, signal.SIGKILL)
        how, frames = self.await_line(other, "end")
        self.machine.checks.that(how in ("eof", "reset"), "%s: %s after %s frames" % (self.what, how, frames))
        self.machine.checks.that(line_of(victim, self.number, "end") is None, "%s: it was killed before its end" % self.what)
        self.client.wait()


def run(machine, options):
    count = int(options[0]) if options else MANY if machine.full else FEW
    port = machine.port()
    server = machine.start("server", *machine.peer("frames.py", "serve", port))
    machine.await_port(server, port)
    before = descriptors(server.pid)
    for number in range(count):
        Round(machine, server, port, number).run()
    wait_until("the server's children have ended", lambda: len(server.family()) == 1)
    machine.checks.that(descriptors(server.pid) == before, "the server has %d descriptors, and had %d" % (descriptors(server.pid), before))
    machine.checks.that(server.stop() == 0, "the server ends at SIGTERM: " + server.told())
    machine.check_moved(count // 2)  # a process that is killed tells nothing
