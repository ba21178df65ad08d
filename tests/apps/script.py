# SPDX-License-Identifier: MIT
"""A random script of socket calls, on a connection that is moved and on one that a rule leaves to the kernel: the same outcomes.

    apps.py BUILD script both|neither MODE [SEED]

MODE is blocking, nonblocking, level or edge. The full run has several seeds. vipl-socket-script is both ends of its connections.
"""
import re

STEPS = 10000


def run(machine, options):
    mode = options[0]
    seeds = [int(options[1])] if len(options) > 1 else range(1, 21) if machine.full else (1,)
    program = machine.copied("vipl-socket-script")
    connections = 0
    for seed in seeds:
        port = machine.port()
        rules = machine.make_file("rules-%d" % seed, "tcp connect * 127.0.0.1/32:%d\ntcp listen * 127.0.0.1/32:%d\nvipl connect * *:*\n" % (port, port))
        script = machine.run("client", program, "--mode", mode, "--steps", STEPS, "--seed", seed, "--plain-port", port,
                             env={"VIPL_SOCKETS_RULES": rules})
        told = re.search(r"^%d steps on (\d+) connections of each kind have the same outcome" % STEPS, script.out, re.M)
        machine.checks.that(told is not None, "it says that all is the same: " + script.told())
        connections += int(told.group(1)) if told else 0
    if machine.preloaded:
        found = machine.statistics("client")
        machine.checks.that(found.moved >= connections, "each of %d connections was moved: %s" % (connections, found))
        machine.checks.that(found.plain >= connections, "each of %d others was not: %s" % (connections, found))
        machine.checks.that(found.failed == 0, "none of them failed: %s" % found)
