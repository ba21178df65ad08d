# SPDX-License-Identifier: MIT
"""Python's asyncio at both ends: 200 connections at a time, contents compared."""

CONNECTIONS = 200


def run(machine, _options):
    port = machine.port()
    server = machine.start("server", *machine.peer("asyncio_echo.py", "server", port))
    machine.await_port(server, port)
    client = machine.run("client", *machine.peer("asyncio_echo.py", "client", port, CONNECTIONS, 40 if machine.full else 6))
    machine.checks.that("%d of %d connections right" % (CONNECTIONS, CONNECTIONS) in client.out, "WRONG bytes came back: " + client.told())
    machine.checks.that(server.stop() == 0, "the server ends at SIGTERM: " + server.told())
    machine.check_moved(CONNECTIONS)
