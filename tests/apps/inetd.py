# SPDX-License-Identifier: MIT
"""A server in the manner of inetd: the process that uses a connection is executed after the connection was accepted."""
from harness import PATIENT


def run(machine, _options):
    connections = 300 if machine.full else 30
    port = machine.port()
    server = machine.start("server", *machine.peer("exec_server.py", port), env=PATIENT)
    machine.await_port(server, port)
    client = machine.run("client", *machine.peer("cat_client.py", port, connections, 4), env=PATIENT)
    machine.checks.that("%d of %d connections right" % (connections, connections) in client.out, "WRONG bytes came back: " + client.told())
    machine.checks.that(server.stop() == 0, "the server ends at SIGTERM: " + server.told())
    machine.check_moved(connections)
