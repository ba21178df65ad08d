# SPDX-License-Identifier: MIT
"""Each step of the handshake fails once, at either end: the connections stay TCP, and all bytes come. And an end dies within the handshake: the
other one learns that, and goes on with others.

VIPL_SOCKETS_FAULT is what the library has for tests; it is set for one end alone.
"""
import stats
from harness import wait_until
from kills import line_of

CONNECTIONS = 20
FAULTS = (("decline", "server"), ("stream", "client"), ("stream", "server"), ("join", "client"), ("join", "server"), ("commit", "client"),
          ("commit", "server"))


def environment(end, faulty, fault):
    return {"VIPL_SOCKETS_FAULT": fault} if end == faulty else {}


def refused(machine, fault, faulty):
    port = machine.port()
    server = machine.start("server", *machine.peer("asyncio_echo.py", "server", port), env=environment("server", faulty, fault))
    machine.await_port(server, port)
    client = machine.run("client", *machine.peer("asyncio_echo.py", "client", port, CONNECTIONS, 4), env=environment("client", faulty, fault))
    what = "%s at the %s: " % (fault, faulty)
    machine.checks.that("%d of %d connections right" % (CONNECTIONS, CONNECTIONS) in client.out, what + "WRONG bytes came back: " + client.told())
    machine.checks.that(server.stop() == 0, what + "the server ends at SIGTERM: " + server.told())
    for end, process in (("client", client), ("server", server)):
        found = stats.parse(process.err)
        print(what + "%s: %s" % (end, found))
        machine.checks.that(found.moved == 0 and found.plain == CONNECTIONS and found.failed == 0, what + "the %s has %s" % (end, found))


def dies(machine, faulty):
    """A server that forks for each connection; the process that dies is its child, or the client."""
    port = machine.port()
    server = machine.start("server", *machine.peer("frames.py", "serve", port), env=environment("server", faulty, "die"))
    machine.await_port(server, port)
    for number in range(3):
        client = machine.start("client", *machine.peer("frames.py", "connect", port, number, "up", 40),
                               env=environment("client", faulty if number < 2 else None, "die"))
        client.wait()
        if faulty == "server":
            how = line_of(client, number, "end")
            machine.checks.that(how is not None and how[0] in ("eof", "reset"), "the server dies in the handshake: " + client.told())
        elif number < 2:
            machine.checks.that(line_of(client, number, "end") is None, "the client dies in the handshake: " + client.told())
        else:
            how = wait_until("a later client is served", lambda last=number: line_of(server, last, "end"))
            machine.checks.that(how == ["whole", "40"], "a later client is served: %s" % how)
    machine.checks.that(server.stop() == 0, "the server ends at SIGTERM: " + server.told())


def run(machine, _options):
    for fault, faulty in FAULTS:
        refused(machine, fault, faulty)
    for faulty in ("client", "server"):
        dies(machine, faulty)
