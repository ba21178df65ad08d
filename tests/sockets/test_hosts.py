# SPDX-License-Identifier: MIT
"""Connections between two hosts, which are network name spaces: moved by the rules of both ends, else TCP, with the reason in the counts.

test_hosts.py FOLDER-OF-THE-PROGRAMS DEVICE SCENE...    DEVICE: tcp or rnic; SCENE: a function below
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "interop", "apps"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
from checks import Checks  # noqa: E402
from hosts import SCALE, Host, V4, V6, cable, need  # noqa: E402
import stats  # noqa: E402

LIMIT_S = 60 * SCALE
PORT = 7400
SERVER, CLIENT = 1, 2  # of the addresses
checks = Checks()


def watched(process):
    """Ends a process that hangs, so that a read of its output ends too."""
    timer = threading.Timer(LIMIT_S, process.kill)
    timer.daemon = True
    timer.start()
    return timer


def has_ended(process, seconds):
    """Whether it ends within a moment."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def link_events(host):
    """A socket to which the kernel tells each change of the host's interfaces from now on."""
    with host.entered():
        events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    events.bind((0, 1))  # RTMGRP_LINK
    events.settimeout(LIMIT_S)
    return events


def carries(host):
    shown = host.run("ip", "link", "show", "v0")
    return ",LOWER_UP" in shown and "state UP" in shown


def packets_without_route(host):
    """Packets that programs of the host have sent while no interface led to where they were to go: they are lost."""
    names, values = [line.split() for line in host.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Ip:")]
    return int(values[names.index("OutNoRoutes")])


class Program:
    """One end, under vipl-run with rules, or plain: `rules` None."""

    def __init__(self, net, side, rules, *words, env=None):
        self.err = tempfile.TemporaryFile("w+")
        before = [] if rules is None else [net.runner, "--stats", "--rules", net.rules_file(rules)]
        self.process = net.hosts[side].start(*before, sys.executable, "-B", os.path.join(HERE, "hosts_peer.py"), *map(str, words),
                                             env=dict(net.env[side], VIPL_LOG="error", **(env or {})), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=self.err, universal_newlines=True)
        self.timer = watched(self.process)
        net.programs.append(self)

    def line(self):
        return self.process.stdout.readline().strip()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()
        self.timer.cancel()
        self.process.stdin.close()
        self.process.stdout.close()
        self.err.seek(0)
        return self.err.read()


class Server(Program):
    def __init__(self, net, rules, address="0.0.0.0", background=False, env=None):
        super().__init__(net, SERVER, rules, "server", address, PORT, *(["background"] if background else []), env=env)
        self.runner = net.runner
        word, self.pid = (self.line() + " - -").split()[:2]
        if word != "ready":
            sys.exit("FAILED: the server does not start:\n" + self.stop())

    def counts(self):
        told = subprocess.run([self.runner, "--stats-of", self.pid], stdout=subprocess.PIPE, timeout=LIMIT_S, universal_newlines=True)
        return stats.parse(told.stdout)


class Client(Program):
    def __init__(self, net, rules, address=V4 % SERVER, env=None):
        super().__init__(net, CLIENT, rules, "client", address, PORT, env=env)

    def tell(self, word, number=0):
        self.process.stdin.write("%s %d\n" % (word, number))
        self.process.stdin.flush()

    def do(self, word, number=0):
        self.tell(word, number)
        return self.line()

    def end(self):
        """Its counts."""
        self.process.stdin.close()
        self.process.wait()
        self.all = self.stop()
        return stats.parse(self.all)


class Net:
    """Two hosts that a cable joins."""

    def __init__(self, folder, binaries, device):
        self.folder, self.device = folder, device
        self.runner = os.path.join(binaries, "vipl-run")
        self.hosts = {SERVER: Host(), CLIENT: Host()}
        cable(self.hosts[SERVER], self.hosts[CLIENT])
        self.await_link()
        self.env = {SERVER: {}, CLIENT: {}}
        self.count = 0
        self.adapters, self.programs = [], []  # all that is started
        if device == "rnic":
            self.start_adapters(os.path.join(binaries, "..", "libexec", "vipl-rnicd"))
        # hosts may name their devices differently
        self.connect = "vipl connect * *:* device %s\n" % ("tcp:v0" if device == "tcp" else device)
        self.listen = "vipl listen * *:* device %s\n" % device

    def start_adapters(self, program):
        """A card for each host. Their wire is the cable; each program knows the cards by the hosts' addresses."""
        names = os.path.join(self.folder, "ethers")
        with open(names, "w", encoding="utf-8") as file:
            for side in (SERVER, CLIENT):
                file.write("02:00:00:00:00:%02x %s\n02:00:00:00:00:%02x %s\n" % (side, V4 % side, side, V6 % side))
        for side, peer in ((SERVER, CLIENT), (CLIENT, SERVER)):
            path = os.path.join(self.folder, "card-%d" % side)
            process = self.hosts[side].start(program, "--socket", path, "--mac", "02:00:00:00:00:%02x" % side, "--wire",
                                             "udp:%s:4700,peer=%s:4700" % (V4 % side, V4 % peer))
            self.adapters.append(process)
            self.env[side] = {"VIPL_RNIC": path, "VIPL_RNIC_HOSTS": names}
            end = time.monotonic() + LIMIT_S
            while not os.path.exists(path):
                if has_ended(process, 0.01) or time.monotonic() > end:
                    sys.exit("FAILED: the adapter does not serve")

    def rules_file(self, text):
        self.count += 1
        path = os.path.join(self.folder, "rules-%d" % self.count)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def await_link(self):
        """Until both interfaces carry: before that the device tcp does not take their addresses."""
        for host in self.hosts.values():
            with link_events(host) as events:
                while not carries(host):
                    try:
                        events.recv(65536)
                    except socket.timeout:
                        sys.exit("HUNG: the interfaces have no link")

    def link(self, state):
        self.hosts[CLIENT].run("ip", "link", "set", "v0", state)

    def close(self):
        """Also where the test has ended early."""
        for program in self.programs:
            program.process.kill()
        for adapter in self.adapters:
            adapter.terminate()
            adapter.wait()


def check_counts(found, moved, plain, reason, what):
    """`reason`: a part of what is said of all that are plain; None: of none."""
    checks.that((found.moved, found.plain, found.failed) == (moved, plain, 0), "%s: moved %d and plain %d: %s" % (what, moved, plain, found))
    if plain > 0:
        checks.that(len(found.reasons) == 1 and all(reason in each for each in found.reasons), "%s: %s: %s" % (what, reason, found))


def echoes(client, times, what):
    for _ in range(times):
        for word, number, expected in (("open", 0, "open"), ("echo", 1, "right"), ("echo", 3000000, "right"), ("close", 0, "closed")):
            got = client.do(word, number)
            checks.that(got == expected, "%s: %s %d: %s" % (what, word, number, got))


def moved(net):
    """Both ends have a rule: all connections are moved, by one probe."""
    for address, host in (("0.0.0.0", V4 % SERVER), (V4 % SERVER, V4 % SERVER)) + ((("::", V4 % SERVER),) if net.device == "tcp" else ()):
        what = "moved, a listener at %s" % address
        server, client = Server(net, net.listen, address), Client(net, net.connect, host)
        echoes(client, 3, what)
        check_counts(client.end(), 3, 0, None, what + ", the client")
        check_counts(server.counts(), 3, 0, None, what + ", the server")
        server.stop()


def plain(net):
    """Whatever one end lacks, the connection is TCP, and the other end says why."""
    none, nobody = "", "no VIPL program listens at the port"
    for what, at_server, at_client, client_says, server_says in (
            ("a server without vipl-run", None, net.connect, nobody, None),
            ("a server without a rule", none, net.connect, nobody, "by the rules"),
            ("a client without a rule", net.listen, none, "by the rules", "the peer does not use VIPL"),
            ("a client without vipl-run", net.listen, None, None, "the peer does not use VIPL"),
            ("a server whose rule names no device", "vipl listen * *:*\n", net.connect, nobody, "by the rules"),
            ("a client whose rule says tcp", net.listen, "tcp connect * *:*\n" + net.connect, "by the rules", "the peer does not use VIPL"),
            ("a client whose rule is for other hosts", net.listen, "vipl connect * 192.0.2.0/24:* device %s\n" % net.device, "by the rules",
             "the peer does not use VIPL"),
            ("a client with a wrong line", net.listen, net.connect + "vipl connect * *:* device\n", "by the rules", "the peer does not use VIPL"),
            ("a client whose device is not there", net.listen, "vipl connect * *:* device tcp:nowhere0\n", "cannot be opened",
             "the peer does not use VIPL"),
            ("another listener's port", "tcp listen * *:%d\n%s" % (PORT, net.listen), net.connect, nobody, None)):
        server, client = Server(net, at_server), Client(net, at_client)
        echoes(client, 2, what)
        found = client.end()
        if client_says is not None:
            check_counts(found, 0, 2, client_says, what + ", the client")
        if server_says is not None:
            check_counts(server.counts(), 0, 2, server_says, what + ", the server")
        if what.endswith("wrong line"):
            checks.that(re.search(r"rules-\d+:2: a rule is: vipl", client.all) is not None, what + ": it is named: " + client.all)
        server.stop()


def next_server(net):
    """What the client remembers of a server ends with that server: the next one at its port may not know of VIPL, and gets no other byte
    than the client's."""
    client = Client(net, net.connect)
    for at_server in (net.listen, None, net.listen):
        server = Server(net, at_server)
        echoes(client, 1, "the next server")
        server.stop(signal.SIGKILL)
    found = client.end()
    checks.that(found.moved >= 1 and found.plain >= 1 and found.moved + found.plain == 3 and found.failed == 0, "the next server: %s" % found)


def background(net):
    """A server that goes into the background after listen(): its child answers once it has accepted a connection, perhaps that very one."""
    server = Server(net, net.listen, background=True)
    try:
        client = Client(net, net.connect)
        echoes(client, 1, "a daemon")
        found = client.end()
        checks.that(found.moved + found.plain == 1 and found.failed == 0, "a daemon's first client: %s" % found)
        client = Client(net, net.connect)
        echoes(client, 1, "a daemon")
        check_counts(client.end(), 1, 0, None, "a daemon, the client")
    finally:
        os.kill(int(server.pid), signal.SIGKILL)
        server.stop()


def killed(net):
    """The peer's death ends a read that waits, as over TCP."""
    for number in (signal.SIGKILL, signal.SIGTERM):
        server, client = Server(net, net.listen), Client(net, net.connect)
        checks.that([client.do("open"), client.do("echo", 1000)] == ["open", "right"], "a connection before the kill")
        client.tell("end")
        server.stop(number)
        checks.that(client.line() in ("the end", "ConnectionResetError"), "a read ends when the server is killed")
        check_counts(client.end(), 1, 0, None, "a server that is killed")


def link(net):
    """A link that is gone for a while delays, and one that stays away ends the connection, as over TCP."""
    limit = {"VIPL_TCP_TIMEOUT_MS": "3000"}
    server, client = Server(net, net.listen, env=limit), Client(net, net.connect, env=limit)
    checks.that([client.do("open"), client.do("echo", 1000)] == ["open", "right"], "a connection before the link is gone")
    net.link("down")
    lost = packets_without_route(net.hosts[CLIENT])
    client.tell("echo", 2000)
    end = time.monotonic() + LIMIT_S
    while packets_without_route(net.hosts[CLIENT]) == lost:
        if time.monotonic() > end:
            sys.exit("HUNG: the bytes are not sent while the link is gone")
    net.link("up")
    checks.that(client.line() == "right", "the bytes come when the link is back")
    net.link("down")
    client.tell("echo", 3000)
    checks.that(client.line() in ("ConnectionResetError", "TimeoutError"), "a connection ends when the link stays away")
    net.link("up")
    check_counts(client.end(), 1, 0, None, "a link that is gone")
    server.stop()


def redis(net):
    """A program that nobody here wrote: what was written is read, through two hosts' event loops."""
    need("redis-server", "redis-cli", "redis-benchmark")
    place = ["-h", V4 % SERVER, "-p", str(PORT)]
    runner = [net.runner, "--stats", "--rules"]
    server = net.hosts[SERVER].start(*runner, net.rules_file(net.listen), "redis-server", "--port", str(PORT), "--bind", "0.0.0.0",
                                     "--protected-mode", "no", "--save", "", "--appendonly", "no", env=net.env[SERVER],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, cwd=net.folder)
    net.adapters.append(server)  # which ends with the test
    timer = watched(server)
    while "eady to accept connections" not in server.stdout.readline():
        if server.poll() is not None:
            sys.exit("FAILED: redis-server does not start")

    def client(*words, text=None):
        process = net.hosts[CLIENT].start(*runner, net.rules_file(net.connect), *words, env=net.env[CLIENT], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        out, err = process.communicate(text, timeout=LIMIT_S)
        return process.returncode, out, stats.parse(err)

    value = "".join("%d," % i for i in range(200000))
    code, out, found = client("redis-cli", *place, "-x", "set", "key", text=value)
    checks.that((code, out, found.moved, found.plain) == (0, "OK\n", 1, 0), "redis-cli writes a long value: %s" % found)
    code, out, found = client("redis-cli", *place, "get", "key")
    checks.that((code, found.moved, found.plain) == (0, 1, 0) and out == value + "\n", "WRONG value by redis-cli: %s" % found)
    code, out, found = client("redis-benchmark", *place, "-c", "20", "-n", "5000", "-P", "4", "-t", "set,get", "-q")
    # a client whose server has no CPU for a second stays with TCP
    checks.that(code == 0 and "rror" not in out and found.moved >= 20 and found.moved + found.plain >= 40 and found.failed == 0,
                "redis-benchmark: %s: %s" % (out, found))
    server.terminate()
    told = stats.parse(server.communicate(timeout=LIMIT_S)[0])
    timer.cancel()
    checks.that(told.moved == found.moved + 2, "redis-server: %s" % told)


SCENES = (background, killed, link, moved, next_server, plain, redis)


def main():
    need("ip")
    binaries, device = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="vipl-hosts-") as folder:
        net = Net(folder, binaries, device)
        try:
            for scene in SCENES:
                if scene.__name__ in sys.argv[3:]:
                    scene(net)
        finally:
            net.close()
    checks.finish()


main()
