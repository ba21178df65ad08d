# SPDX-License-Identifier: MIT
"""vipl-ping: options, pairs of several sizes, the self-test, a server that outlives its clients."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, Running, directory, run, signal, unique  # noqa: E402

ping = os.path.join(directory(), "vipl-ping")
checks = Checks()
checks.common_options(ping)


def usage():
    for wrong in (["--pair", "--server"], [], ["--pair", "--size", "0"], ["--pair", "--count", "-1"],
                  ["--pair", "--size", "12x"], ["--pair", "--reliability", "some"], ["--pair", "stray"],
                  ["--pair", "--timeout", "99999999999999999999"]):
        checks.code(run(ping, *wrong), 2, "wrong usage %r" % wrong)


def pairs():
    for size in ("1", "63", "4096", "100000", "1M"):
        result = run(ping, "--pair", "--count", "8", "--size", size)
        checks.code(result, 0, "a pair, %s bytes" % size)
        checks.that(result.out.count(" message ") == 8, "a line for each message", result)
    for level in ("unreliable", "delivery", "reception"):
        result = run(ping, "--pair", "--reliability", level, "--quiet")
        checks.code(result, 0, "a pair, " + level)
    result = run(ping, "--pair", "--json", "--count", "3", "--size", "1K")
    summary = checks.json(result.out, "--json")
    checks.that(summary.get("device") == "loopback", "the summary names the device", result)
    checks.that(summary.get("sent") == 3 and summary.get("intact") == 3 and summary.get("size_bytes") == 1024,
                "the summary in JSON", result)
    checks.that(summary.get("round_trip_min_us", 0) > 0, "the round trip takes time", result)


def corruption():
    for size in ("1", "64", "70000"):
        result = run(ping, "--pair", "--selftest", "--size", size)
        checks.code(result, 0, "the self-test, %s bytes" % size)
        checks.that("were noticed" in result.out, "the self-test says what it noticed", result)


def no_server():
    start = time.monotonic()
    result = run(ping, "--client", "--discriminator", unique("nobody"), "--timeout", "200")
    checks.code(result, 1, "a client without a server")
    checks.that(time.monotonic() - start < 5, "a client gives up at its timeout")
    checks.code(run(ping, "--pair", "--device", "nowhere"), 1, "a device that does not exist")


def server_survives():
    name = unique("ping")
    server = Running(ping, "--server", "--discriminator", name)
    checks.that(server.wait_line("waiting on") is not None, "a server says where it waits")
    for number in range(3):
        client = Running(ping, "--client", "--discriminator", name, "--count", "4000000000")
        checks.that(client.wait_line(" message 2,") is not None, "client %d is served" % number)
        client.signal(signal.SIGKILL)
        client.close()
        result = run(ping, "--client", "--discriminator", name)
        checks.code(result, 0, "the client after killed client %d" % number)
    client = Running(ping, "--client", "--discriminator", name, "--count", "4000000000")
    checks.that(client.wait_line(" message 2,") is not None, "a client to be interrupted is served")
    checks.that(client.signal(signal.SIGINT) == 130, "SIGINT ends a client with 130")
    checks.that(client.wait_line(" sent, ") is not None, "an interrupted client still reports")
    checks.that(server.signal(signal.SIGINT) == 0, "SIGINT ends a server with 0")
    server.close()


usage()
pairs()
corruption()
no_server()
server_survives()
checks.finish()
