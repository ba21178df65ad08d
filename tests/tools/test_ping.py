# SPDX-License-Identifier: MIT
"""vipl-ping: options, pairs of several sizes, the self-test, a server that outlives its clients."""
import os
import sys
import tempfile
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
    checks.that("VIP_NO_MATCH: the host was reached" in result.err and "127.0.0.1" in result.err, "why is said", result)
    result = run(ping, "--pair", "--device", "nowhere")
    checks.code(result, 1, "a device that does not exist")
    checks.that('no device "nowhere"' in result.err, "the device is named", result)
    result = run(ping, "--pair", "--size", "5M")
    checks.code(result, 1, "more than the device transfers at once")
    checks.that("MaxTransferSize is 5242880; 1 to 4194304 are allowed" in result.err, "the limit is named", result)
    result = run(ping, "--client", "127.0.0.2", "--timeout", "100")
    checks.code(result, 1, "another host by loopback")
    checks.that('"127.0.0.2" is not this host' in result.err, "the host is named", result)
    checks.code(run(ping, "--client", "127.0.0.1", "--timeout", "1"), 1, "this host by its address")
    checks.that("4M" in run(ping, "--help").out, "--help tells the limit")


def settings():
    result = run(ping, "--pair", "--quiet", env={"VIPL_LOG": "info"})
    checks.that("opened loopback" in result.err, "VIPL_LOG of the environment", result)
    result = run(ping, "--pair", "--quiet")
    checks.that(result.err == "", "nothing is said by default", result)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("VIPL_LOG = info\n")
        file.flush()
        result = run(ping, "--pair", "--quiet", env={"VIPL_CONFIG": file.name})
    checks.that("opened loopback" in result.err, "VIPL_LOG of the configuration file", result)
    result = run(ping, "--pair", "--quiet", env={"VIPL_LOQ": "info"})
    checks.that(result.err.count("VIPL_LOQ is no setting") == 1, "what is no setting is named once, not by each process", result)


def lost_messages():
    """Each process loses the fourth and the sixth message that it sends: one of those the other end echoes."""
    result = run(ping, "--pair", "--reliability", "unreliable", "--timeout", "300", "--count", "8",
                 env={"VIPL_FAULTS": "drop=@4,drop=@6"})
    checks.code(result, 1, "a pair that loses messages")
    checks.that("8 sent, 4 intact, 4 lost, 0 corrupt" in result.out, "it goes on after lost ones", result)


def server_survives():
    name = unique("ping")
    server = Running(ping, "--server", "--discriminator", name)
    checks.that(server.wait_line("waiting on") is not None, "a server says where it waits")
    checks.code(run(ping, "--client", "--discriminator", name, "--size", "100", "--count", "3"), 0, "the first client")
    line = server.wait_line("client at")
    checks.that(line is not None and "127.0.0.1: up to 100 bytes per message, delivery" in line, "who came: %r" % line)
    checks.that(server.wait_line("client gone after 3 messages") is not None, "what it did")
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
settings()
lost_messages()
server_survives()
checks.finish()
