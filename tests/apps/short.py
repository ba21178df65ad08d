# SPDX-License-Identifier: MIT
"""A program that connects for each request, without rules: after some, its connections stay with TCP, and the counts say why. The next program's are
moved again.
"""
import time

import many
import stats

COUNT = 400
AT_ONCE = 16  # that are moved in vain
ANOTHER_S = 0.2  # after which one more may be
REASON = "connections to the port have been short"


def run(machine, _options):
    no_rules = {"VIPL_SOCKETS_RULES": ""}
    server, port = many.started(machine)
    begin = time.monotonic()
    client = machine.run("client", *machine.peer("churn.py", port, COUNT), env=no_rules, text=machine.make_file("lines", "\n\n"))
    most = AT_ONCE + 1 + (time.monotonic() - begin) / ANOTHER_S
    found = stats.parse(client.err)
    print("the client: %s" % found)
    machine.checks.that(AT_ONCE < found.moved <= most, "%d to %.1f connections were moved: %s" % (AT_ONCE + 1, most, found))
    machine.checks.that(found.failed == 0 and found.moved + found.plain == COUNT, "all %d connections: %s" % (COUNT, found))
    machine.checks.that(found.plain < 20 or found.reasons.get(REASON, 0) >= found.plain - 20, "for this reason: %s" % found)
    other = stats.parse(machine.run("client", *machine.peer("churn.py", port, 10), env=no_rules, text=machine.make_file("lines", "\n\n")).err)
    machine.checks.that((other.moved, other.plain, other.failed) == (10, 0, 0), "another client: %s" % other)
    machine.checks.that(server.stop() == 0, "the server ends: " + server.told())
