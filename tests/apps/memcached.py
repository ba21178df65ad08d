# SPDX-License-Identifier: MIT
"""memcached with its four threads: a client of eight connections compares what it reads with what it wrote."""

CONNECTIONS = 8


def start(machine):
    port = machine.port()
    server = machine.start("server", "memcached", "-l", "127.0.0.1", "-p", port, "-U", 0, "-t", 4, "-m", 512, "-I", "2m")
    machine.await_port(server, port)
    return server, port


def run(machine, _options):
    machine.need("memcached")
    server, port = start(machine)
    keys = 4000 if machine.full else 400
    client = machine.run("client", *machine.peer("memcached_client.py", port, keys, CONNECTIONS))
    machine.checks.that("%d keys right" % keys in client.out, client.told())
    machine.checks.that(server.stop() == 0, "memcached ends at SIGTERM: " + server.told())
    machine.check_moved(CONNECTIONS + 1)
