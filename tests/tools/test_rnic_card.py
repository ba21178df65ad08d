# SPDX-License-Identifier: MIT
"""vipl-rnic-log --replay --card: what a log's card did is done again by a card behind a socket with no difference, also by one that does it
in other pieces; a difference is named with its record; a card that does less, or more, is found out; what cannot be replayed is refused."""
import itertools
import os
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from bus_between import DMA_READ, DMA_WRITE, DONE, INTERRUPT, Between, Message  # noqa: E402
from toolrun import Checks, Running, directory, run  # noqa: E402

checks = Checks()
until = []  # of log.pcapng
program, ping = (os.path.join(directory(), name) for name in ("vipl-rnic-log", "vipl-ping"))
rnicd = os.path.join(directory(), "..", "libexec", "vipl-rnicd")
folder = tempfile.mkdtemp(prefix="vipl-rnic-card-")
same = ("--mac", "02:00:00:00:00:01", "--seed", "5")  # cards that are alike


def path(name):
    return os.path.join(folder, name)


def is_listening(at):
    """Whether somebody accepts connections there: the file is there before that."""
    with open("/proc/net/unix") as file:
        return any(line.split()[3] == "00010000" and line.endswith(" %s\n" % at) for line in file)


def start_adapter(way, name, *options):
    adapter = Running(rnicd, way, path(name), *same, *options)
    until = time.monotonic() + 30
    while not is_listening(path(name)) and adapter.process.poll() is None and time.monotonic() < until:
        pass
    return adapter


class Card:
    """An adapter behind a socket, for one replay or recording."""

    def __init__(self, *options):
        self.adapter = start_adapter("--bus", "card", *options)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.adapter.signal(signal.SIGTERM)


def record(name, *options, options_of_card=()):
    """The listener is there before it is asked for: which of the two comes first is a race otherwise, which another card may decide otherwise."""
    device = "rnic:bus:" + path("card")
    with Card("--record", path(name), *options_of_card):
        server = Running(ping, "--server", "--device", device)
        server.wait_line("waiting")
        address = re.search(r"address +(\S+)", run(os.path.join(directory(), "vipl-info"), "--device", device).out)
        result = run(ping, "--client", address.group(1), "--device", device, "--quiet", *options)
        server.signal(signal.SIGTERM)
        return result


def replay(name, *options, change=None):
    """A replay to a card that is alike, or to one that `change` makes of it."""
    with Card():
        if change is None:
            return run(program, "--replay", "--card", path("card"), *options, path(name))
        between = Between(path("between"), path("card"), change)
        result = run(program, "--replay", "--card", path("between"), *options, path(name))
        between.close()
        os.unlink(path("between"))
        return result


def lines_of(name):
    run(program, "-o", path("lines.txt"), path(name))
    with open(path("lines.txt")) as file:
        return file.readlines()


def to_last_ping(name, size):
    """Up to the last byte that was sent: behind that both ends take the connection down at the same time, each before the other one or not."""
    lines = lines_of(name)
    return "--until", "@%d" % (1 + max(i for i, line in enumerate(lines) if " dma-write " in line and " bytes=%s " % size in line))


def check_same():
    for size in ("64", "5000"):
        checks.code(record("log.pcapng", "--count", "20", "--size", size), 0, "pings of %s bytes" % size)
        until[:] = to_last_ping("log.pcapng", size)
        result = replay("log.pcapng", *until)
        checks.code(result, 0, "a card that is alike, %s bytes" % size)
        found = re.search(r"(\d+) records, (\d+) accesses, (\d+) bytes of DMA, no difference\n", result.out)
        checks.that(found is not None and "@" + found.group(1) == until[1], "all records", result)
        checks.that(found is not None and int(found.group(3)) > 20 * 4 * int(size), "all data: each ping is read and written twice", result)


def in_pieces(message):
    """Of 64 bytes each; what is read is read twice."""
    if message.kind == DMA_READ:
        pieces = [Message(DMA_READ, address=message.address + at, value=min(64, message.value - at)) for at in range(0, message.value, 64)]
        return pieces + [Message(DMA_READ, address=piece.address, value=piece.value) for piece in pieces[:1]]
    if message.kind == DMA_WRITE:
        return [Message(DMA_WRITE, message.data[at:at + 64], address=message.address + at) for at in range(0, len(message.data), 64)]
    return [message, message] if message.kind == INTERRUPT else [message]


def check_pieces():
    result = replay("log.pcapng", *until, change=in_pieces)
    checks.code(result, 0, "a card that does all in pieces")
    checks.that("no difference" in result.out and re.search(r"other place than in the log: 0 writes, [1-9]\d* interrupts", result.out) is not None,
                "its interrupts are counted", result)


def flip(line, field):
    return re.sub(r"(%s=(?:0x)?[0-9a-f]*)([0-9a-f])" % field, lambda m: m.group(1) + "%x" % (int(m.group(2), 16) ^ 1), line, count=1)


def check_planted():
    """A bit of what the log's card did: that record is named."""
    lines = lines_of("log.pcapng")
    for kind, field in (("dma-write", "data"), ("dma-write", "address"), ("register-read", "value"), ("config-read", "value"), ("interrupt", "value")):
        places = [i for i, line in enumerate(lines[:int(until[1][1:])]) if line.split()[2] == kind and len(line) < 8000]  # one message
        at = places[len(places) // 2] if kind != "interrupt" else places[0]
        with open(path("planted.txt"), "w") as file:
            file.writelines(lines[:at] + [flip(lines[at], field)] + lines[at + 1:])
        result = replay("planted.txt", "--wait", "3")
        checks.code(result, 3, "a bit of the %s of a %s" % (field, kind))
        named = re.search(r"record (\d+) differs\nlog : (.*)\ncard: (.*)\n", result.out)
        checks.that(named is not None and int(named.group(1)) == at + 1, "record %d is named" % (at + 1), result)
        if named is not None and field in ("data", "value") and kind != "interrupt":
            checks.that(named.group(2) + "\n" == flip(lines[at], field) and named.group(3) + "\n" == lines[at], "both sides", result)
        checks.code(replay("planted.txt", "--until", "@%d" % at), 0, "it is as it was before that")


def nth(kind, n, what):
    """What becomes of the Nth message of a kind."""
    left = [n]

    def change(message):
        if message.kind != kind:
            return [message]
        left[0] -= 1
        return what(message) if left[0] == 0 else [message]
    return change


def longer(message):
    return [Message(DMA_WRITE, message.data + b"\0", address=message.address)]


def check_wrong():
    """A card that does less than the log's, or more, or something else."""
    def elsewhere(message):
        return [message, Message(DMA_WRITE, b"1234", address=0x1000)]

    def unknown(message):
        return [message, Message(DMA_READ, address=0x7770000, value=8)]

    cases = (("a write that never comes", nth(DMA_WRITE, 9, lambda m: []), "card: nothing"),
             ("a write that is too long", nth(DMA_WRITE, 9, longer), "card: .* dma-write "),
             ("a write to elsewhere", nth(DMA_WRITE, 9, elsewhere), "card: .* dma-write .*address=0x1000 "),
             ("memory that the log does not know", nth(DMA_READ, 3, unknown), "card: .* dma-read .*address=0x7770000 "),
             ("no interrupts", lambda m: [] if m.kind == INTERRUPT else [m], "card: nothing"),
             ("a vector that does not exist", nth(INTERRUPT, 1, lambda m: [Message(INTERRUPT, value=16)]), "card: nothing"),
             ("interrupts without end", nth(DMA_WRITE, 9, lambda m: itertools.repeat(Message(INTERRUPT, value=1))), "card: nothing"),
             ("no answer", nth(DONE, 5, lambda m: []), "card: nothing"),
             ("an end of the stream", nth(DMA_READ, 5, lambda m: None), "card: nothing"))
    for what, change, pattern in cases:
        result = replay("log.pcapng", "--wait", "1", change=change)
        checks.code(result, 3, what)
        checks.that(re.search(r"record \d+ differs\nlog : .*\n" + pattern, result.out) is not None, "it is named: " + what, result)


def check_polled():
    """A register that was read until it had a value has it at once, or later: but it has to have that."""
    lines = lines_of("log.pcapng")
    at = next(i for i, line in enumerate(lines) if " register-read " in line and "address=0x44 " in line)
    with open(path("polled.txt"), "w") as file:
        file.writelines(lines[:at] + [flip(lines[at], "value")] * 3 + lines[at:])
    checks.code(replay("polled.txt", "--until", "@%d" % (int(until[1][1:]) + 3)), 0, "a register that the log's host has polled")

    late = [0]

    def not_yet(message):
        late[0] += 1 if message.kind == DONE else 0
        return [Message(DONE, id=message.id, value=message.value ^ 1)] if message.kind == DONE and late[0] in (8, 9) else [message]
    checks.code(replay("log.pcapng", *until, change=not_yet), 0, "a register that has its value later")


def check_refused():
    record("faults.pcapng", "--count", "2", options_of_card=("--fault", "late=500,interrupt_late=0.1"))
    adapter = start_adapter("--socket", "vfio", "--record", path("mapped.pcapng"))
    run(ping, "--pair", "--device", "rnic:socket:" + path("vfio"), "--quiet", "--count", "2")
    adapter.signal(signal.SIGTERM)
    for name, reason in (("faults.pcapng", "had faults"), ("mapped.pcapng", "--bus")):
        result = replay(name)
        checks.code(result, 1, "a log of another kind: " + name)
        checks.that(reason in result.err, "it says why", result)
    checks.code(run(program, "--replay", "--card", path("nowhere"), path("log.pcapng")), 1, "no card")
    checks.code(replay("nothing.pcapng"), 1, "no log")
    for wrong in (("--save", "x", "--until", "@9"), ("--load", "x"), ("--wait", "0"), ("--wait", "x"), ("--explain",), ("--fn", "0")):
        checks.code(run(program, "--replay", "--card", path("nowhere"), *wrong, path("log.pcapng")), 2, "wrong usage: %r" % (wrong,))
    checks.code(run(program, "--card", path("nowhere"), path("log.pcapng")), 2, "a card for no replay")
    checks.code(run(program, "--replay", "--wait", "3", path("log.pcapng")), 2, "waiting for this program's card")


try:
    check_same()
    check_pieces()
    check_planted()
    check_wrong()
    check_polled()
    check_refused()
finally:
    shutil.rmtree(folder)
checks.finish()
