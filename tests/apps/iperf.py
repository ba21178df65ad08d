# SPDX-License-Identifier: MIT
"""iperf3: several streams, both directions, each for a fixed number of bytes. Its contents cannot be compared: with a file as the payload (-F) it
leaves some out itself when a send is not taken whole, over plain TCP too."""
import json

from harness import Failed


def measure(machine, options):
    """One server for one client: what the client tells, by its own JSON."""
    port = machine.port()
    server = machine.start("server", "iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port)
    machine.await_port(server, port)
    client = machine.run("client", "iperf3", "-c", "127.0.0.1", "-p", port, "-J", *options)
    machine.checks.that(server.wait() == 0, "the server ends after its client: " + server.told())
    told = json.loads(client.out)
    if "sum_received" not in told["end"]:
        raise Failed("iperf3 %s: %s: %s" % (options, told.get("error"), server.told()))
    end = told["end"]
    return end["sum_sent"]["bytes"], end["sum_received"]["bytes"]


def run(machine, _options):
    machine.need("iperf3")
    # The end of the test is told beside the data: how much of the last second is counted, or written, is iperf3's affair.
    size = (200 if machine.full else 30) << 20
    moved = 0
    for options, streams in (((), 1), (("-R",), 1), (("-P", 4), 4), (("-R", "-P", 4), 4)):
        sent, received = measure(machine, ("-n", size) + options)
        machine.checks.that(sent >= size, "%s: %d bytes are sent of %d" % (options, sent, size))
        machine.checks.that(size / 2 <= received <= sent, "%s: %d bytes are received of %d" % (options, received, sent))
        moved += streams + 1
    machine.check_moved(moved)
