# SPDX-License-Identifier: MIT
"""Two hosts and a network between them: the conformance suite in good and bad conditions.

usage: network.py DIRECTORY-OF-THE-PROGRAMS VARIANT [CASES]

The kernel's own netem is not everywhere: loss is made by nft, a low rate by tc's tbf, delay and reordering
by a forwarder between two tun devices that this script is.

A lossy network is slow for one reason that is not ours: a connection's first packet is sent again after a
second at the earliest. So there the suite is told how long an answer may take, and of its cases only those
with two sides are run. Other packets are to be repeated sooner than after the usual 200 ms, and never later
than after a second: a connection whose handshake lost a packet takes that second for the network's delay, waits
three, six and twelve for the next ones, and hands its mistake on to the connections after it.
"""
import heapq
import os
import random
import select
import subprocess
import sys
import time

from hosts import SCALE, Host, V4, V6, cable, need, tunnel

LIMIT_S = 270 * SCALE  # the test's own is above it
MIN_PACKETS = 3000

VARIANTS = {
    "ipv4.crc_on": {"version": 4, "crc": "on"},
    "ipv4.crc_off": {"version": 4, "crc": "off"},
    "ipv6.crc_on": {"version": 6, "crc": "on"},
    "ipv6.crc_off": {"version": 6, "crc": "off"},
    "mtu_9000": {"version": 6, "crc": "on", "mtu": 9000},
    "loss_1": {"version": 6, "crc": "on", "loss": 1, "answer": 3000, "scale": 2},
    "loss_5": {"version": 4, "crc": "on", "loss": 5, "answer": 5000, "scale": 3},
    "rate": {"version": 4, "crc": "on", "rate": "20mbit", "scale": 2},
    "reorder": {"version": 4, "crc": "on", "delay": (0.001, 0.005), "answer": 500, "scale": 2},
    "unplugged.ipv4": {"version": 4, "crc": "on", "program": "vipl-unplugged"},
    "unplugged.ipv6": {"version": 6, "crc": "off", "program": "vipl-unplugged"},
}

# How soon vipl-unplugged is to notice, and how it pulls the link.
UNPLUGGED = {"VIPL_TCP_IDLE_MS": "1000", "VIPL_TCP_TIMEOUT_MS": "3000",
             "VIPL_TEST_UNPLUG": "ip link set v0 down", "VIPL_TEST_PLUG": "ip link set v0 up"}


def lose(host, percent):
    """Drops packets as they come in, whatever they are."""
    host.run("nft", "-f", "-", text="""
        table inet network {
            chain incoming {
                type filter hook input priority 0
                iifname "v0" numgen random mod 100 < %d counter drop
            }
        }
        """ % percent)
    host.setting("ipv4/tcp_syn_linear_timeouts", 8)
    host.setting("ipv4/tcp_rto_max_ms", 1000)
    host.setting("ipv4/tcp_no_metrics_save", 1)
    host.run("ip", "route", "change", (V4 % 0) + "/24", "dev", "v0", "rto_min", "5ms")
    host.run("ip", "-6", "route", "add", V6.replace("%d", "/64"), "dev", "v0", "metric", "1", "rto_min", "5ms")


def lost(host):
    rules = host.run("nft", "list", "table", "inet", "network").split()
    return int(rules[rules.index("packets") + 1])


def slow_down(host, rate):
    host.run("tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", rate, "burst", "32kb", "limit", "256kb")


class Forwarder:
    """Carries packets between two tunnels, each after a time of its own: they overtake each other."""

    def __init__(self, hosts, delay):
        self.delay = delay
        self.devices = [tunnel(host, "v0") for host in hosts]
        for number, host in enumerate(hosts, 1):
            host.address("v0", number)
        self.waiting = []
        self.count = self.overtaken = 0
        self.latest = [0, 0]

    def take(self, device, now):
        while True:
            try:
                packet = os.read(device, 65536)
            except BlockingIOError:
                return
            to = 1 - self.devices.index(device)
            due = now + random.uniform(*self.delay)
            self.overtaken += due < self.latest[to]
            self.latest[to] = max(self.latest[to], due)
            self.count += 1
            heapq.heappush(self.waiting, (due, self.count, to, packet))

    def carry(self, process):
        """Until the process has ended."""
        end = os.pidfd_open(process.pid)
        while process.poll() is None:
            now = time.monotonic()
            while self.waiting and self.waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(self.waiting)
                os.write(self.devices[to], packet)
            pause = max(0, self.waiting[0][0] - now) if self.waiting else 1
            ready, _, _ = select.select(self.devices + [end], [], [], pause)
            for device in ready:
                if device != end:
                    self.take(device, time.monotonic())
        os.close(end)


def start(folder, hosts, variant, arguments):
    name = {4: V4, 6: V6}[variant["version"]]
    program = variant.get("program", "vipl-conformance")
    if program == "vipl-conformance":
        arguments = ["--mode", "procs"] + arguments
    scale = SCALE * variant.get("scale", 1)
    env = dict(UNPLUGGED if program == "vipl-unplugged" else {}, VIPL_MPA_CRC=variant["crc"],
               VIPL_TEST_TIMEOUT_SCALE=str(scale), VIPL_TEST_ANSWER_MS=str(variant.get("answer", 0)),
               VIPL_TEST_DEVICE="tcp:" + name % 1, VIPL_TEST_PEER_DEVICE="tcp:" + name % 2,
               VIPL_TEST_PEER_NETNS=hosts[1].path)
    return hosts[0].start(os.path.join(folder, program), *arguments, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True)


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in VARIANTS:
        sys.exit("usage: network.py DIRECTORY-OF-THE-PROGRAMS %s" % "|".join(VARIANTS))
    need("ip", "nft", "tc")
    variant = VARIANTS[sys.argv[2]]
    bad = [word for word in ("loss", "rate", "delay") if word in variant]
    hosts = [Host(), Host()]
    forwarder = Forwarder(hosts, variant["delay"]) if "delay" in variant else None
    if forwarder is None:
        cable(*hosts, mtu=variant.get("mtu", 1500))
    for host in hosts:
        if "loss" in variant:
            lose(host, variant["loss"])
        if "rate" in variant:
            slow_down(host, variant["rate"])
    process = start(sys.argv[1], hosts, variant, sys.argv[3:] or (["[procs]"] if bad else []))
    try:
        if forwarder is not None:
            forwarder.carry(process)
        out, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    judge(out, process.returncode, hosts, variant, forwarder)


def judge(out, code, hosts, variant, forwarder):
    """The suite's word, and that what it passed was the network that was meant."""
    print(out)
    counts = [host.packets("v0") for host in hosts]
    print("packets: %d and %d" % tuple(counts))
    good = code == 0 and min(counts) > MIN_PACKETS
    if "loss" in variant:
        dropped = [lost(host) for host in hosts]
        print("lost of them: %d and %d" % tuple(dropped))
        good = good and all(d > n * variant["loss"] / 300 for d, n in zip(dropped, counts))
    if forwarder is not None:
        print("carried: %d, overtaken: %d" % (forwarder.count, forwarder.overtaken))
        good = good and forwarder.overtaken > 1000
    sys.exit(0 if good else "FAILED: exit code %s, or not the network that was meant" % code)


if __name__ == "__main__":
    main()
