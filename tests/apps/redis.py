# SPDX-License-Identifier: MIT
"""Redis: values that are known come back through pipelines; redis-cli and redis-benchmark; a replica in the full run."""
import os
import re

PIPED_KEYS = 2000


def start(machine, port, *options):
    """A server, whose Unix socket is for what the test asks without VIPL."""
    path = os.path.join(machine.make_folder("redis-%d" % port), "socket")
    server = machine.start("server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
                           "--dir", os.path.dirname(path), "--unixsocket", path, "--enable-debug-command", "local",
                           "--repl-diskless-sync-delay", "0", *options)
    machine.await_port(server, port)
    return server, path


def asked(machine, path, *words):
    """What redis-cli prints, over the Unix socket."""
    return machine.run("tool", "redis-cli", "-s", path, *words).out.strip()


def written_by_pipe(machine, port, path):
    """redis-cli --pipe writes; a server digests what it has, and one key is read by hand."""
    lines = "".join("SET piped:%d %s\r\n" % (i, ("%d-" % i) * (i % 300 + 1)) for i in range(PIPED_KEYS))
    text = machine.make_file("commands", lines)
    piped = machine.run("client", "redis-cli", "-h", "127.0.0.1", "-p", port, "--pipe", text=text)
    machine.checks.that("errors: 0, replies: %d" % PIPED_KEYS in piped.out, "redis-cli --pipe: " + piped.told())
    gets = machine.make_file("gets", "".join("GET piped:%d\n" % i for i in range(PIPED_KEYS)))
    read = machine.run("client", "redis-cli", "-h", "127.0.0.1", "-p", port, text=gets)
    machine.checks.that(read.out.split() == [("%d-" % i) * (i % 300 + 1) for i in range(PIPED_KEYS)], "WRONG contents by redis-cli GET")
    machine.checks.that(int(asked(machine, path, "DBSIZE")) >= PIPED_KEYS, "the server has the keys")


def benchmark(machine, port, *options):
    count = 20000 if machine.full else 5000
    run = machine.run("client", "redis-benchmark", "-h", "127.0.0.1", "-p", port, "-n", count, "-q", *options)
    rates = re.findall(r"^\S.*: ([\d.]+) requests per second", run.out.replace("\r", "\n"), re.M)
    machine.checks.that(len(rates) > 0 and all(float(rate) > 0 for rate in rates) and "rror" not in run.out, "redis-benchmark: " + run.told())


def replica(machine, port, path):
    """A second server copies the first: one long transfer by a server to a server. The copy is digested."""
    other = machine.port()
    second, second_path = start(machine, other, "--replicaof", "127.0.0.1 %d" % port)
    second.wait_text("MASTER <-> REPLICA sync: Finished with success")
    machine.run("tool", "redis-cli", "-s", path, "SET", "afterwards", "also")
    machine.checks.that(asked(machine, path, "WAIT", 1, 60000) == "1", "the replica acknowledges a write")
    machine.checks.that(asked(machine, path, "DEBUG", "DIGEST") == asked(machine, second_path, "DEBUG", "DIGEST"), "WRONG contents of the replica")
    machine.checks.that(second.stop() == 0, "the replica ends: " + second.told())


def run(machine, _options):
    machine.need("redis-server", "redis-cli", "redis-benchmark")
    port = machine.port()
    server, path = start(machine, port)
    connections, keys = (16, 16000) if machine.full else (4, 1600)
    checked = machine.run("client", *machine.peer("resp_client.py", port, keys, connections))
    machine.checks.that("%d keys right" % keys in checked.out, checked.told())
    written_by_pipe(machine, port, path)
    benchmark(machine, port, "-c", 50, "-P", 16, "-t", "set,get,mset,lpush,lrange_100")
    benchmark(machine, port, "-c", 1, "-t", "set,get")
    moved = connections + 2 + 51
    if machine.full:
        benchmark(machine, port, "-c", 20, "-d", 50000, "-t", "set,get")
        if machine.ends in ("both", "neither"):
            replica(machine, port, path)
    machine.checks.that(server.stop() == 0, "the server ends at SIGTERM: " + server.told())
    machine.check_moved(moved)
