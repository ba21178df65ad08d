# SPDX-License-Identifier: MIT
"""vipl-rnic-log --replay: what vipl-rnicd --record has written of a card is done again by another one with no difference, whatever the
card's wire and faults were; a difference of one bit is named with its record; what is no such log is refused. With --conformance: the log
of a whole conformance run."""
import os
import random
import re
import shutil
import signal
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, Running, directory, run  # noqa: E402

whole = "--conformance" in sys.argv  # a log of a whole run of it, and nothing else
sys.argv = [argument for argument in sys.argv if argument != "--conformance"]
checks = Checks()
program, ping, stores = (os.path.join(directory(), name) for name in ("vipl-rnic-log", "vipl-ping", "vipl-test-stores"))
rnicd = os.path.join(directory(), "..", "libexec", "vipl-rnicd")
folder = tempfile.mkdtemp(prefix="vipl-rnic-replay-")


def path(name):
    return os.path.join(folder, name)


def serve(name, *options):
    """An adapter that serves the socket `name`."""
    adapter = Running(rnicd, "--socket", path(name), *options)
    until = time.monotonic() + 30
    while run(rnicd, "--stats", "--socket", path(name)).code != 0 and adapter.process.poll() is None and time.monotonic() < until:
        pass
    return adapter


def record(name, *options, env=None, count="20", size="1000"):
    """A log of a card over which pings went."""
    adapter = serve("card", "--record", path(name), *options)
    result = run(ping, "--pair", "--device", "rnic:socket:" + path("card"), "--count", count, "--size", size, "--quiet", env=env)
    adapter.signal(signal.SIGTERM)
    return result


def replay(name, *options):
    return run(program, "--replay", *options, path(name))


def check_same(name, what):
    result = replay(name)
    checks.code(result, 0, "a replay of " + what)
    checks.that(re.search(r"[1-9]\d* records, [1-9]\d* advances, no difference$", result.out.strip()) is not None, "it says so: " + what, result)


def lines_of(name):
    run(program, "-o", path("lines.txt"), path(name))
    with open(path("lines.txt")) as file:
        return file.readlines()


def check_cards():
    checks.code(record("plain.pcapng"), 0, "pings")
    check_same("plain.pcapng", "pings")
    checks.code(record("plain.txt", "--seed", "9"), 0, "pings, in text")
    check_same("plain.txt", "pings, in text")
    checks.code(record("window.pcapng", env={"VIPL_RNIC_BOTF": "464"}, size="200"), 0, "pings by windows")
    kinds = {line.split()[2] for line in lines_of("window.pcapng")}
    checks.that({"card", "attach", "detach", "advance", "load", "window", "try-sleep", "sleep"} <= kinds, "the kinds: %r" % kinds)
    check_same("window.pcapng", "windows")
    adapter = serve("card", "--record", path("stores.pcapng"), "--fault", "aotf_full=0.2,seed=4", "--impair", "loss=0.1,seed=2")
    result = run(stores, "socket:" + path("card"), "500")
    adapter.signal(signal.SIGTERM)
    checks.code(result, 0, "single stores")
    found = re.match(r"stores=500 overrun=(\d+) dropped=0$", result.out.strip())
    checks.that(found is not None and int(found.group(1)) > 20, "some found no room", result)
    singles = [line for line in lines_of("stores.pcapng") if " register-write " in line and int(re.search(r"address=0x(\w+)", line).group(1), 16) >= 0x100000]
    checks.that(len(singles) == 500, "the log has all stores: %d" % len(singles))
    check_same("stores.pcapng", "single stores")
    record("bad.pcapng", "--impair", "seed=3,loss=0.1,corrupt=0.05", "--fault",
           "seed=5,dma_poison=@300/50,doorbell_late=0.02,completion_late=0.05,interrupt_late=0.1,memory_flip=0.5,late=500")
    check_same("bad.pcapng", "a card with faults on a bad wire")


def check_wire():
    """Two cards: frames that come by the wire are part of the log."""
    ports = 20000 + os.getpid() % 20000
    wires = ["udp:127.0.0.1:%d,peer=127.0.0.1:%d" % (ports + i, ports + 1 - i) for i in range(2)]
    adapters = [serve("card%d" % i, "--wire", wires[i], "--record", path("wire%d.pcapng" % i)) for i in range(2)]
    devices = ["rnic:socket:" + path("card%d" % i) for i in range(2)]
    server = Running(ping, "--server", "--device", devices[1])
    address = re.search(r"address +(\S+)", run(os.path.join(directory(), "vipl-info"), "--device", devices[1]).out)
    server.wait_line("waiting")
    checks.code(run(ping, "--client", address.group(1), "--device", devices[0], "--count", "5"), 0, "a ping over a wire")
    server.signal(signal.SIGTERM)
    for adapter in adapters:
        adapter.signal(signal.SIGTERM)
    for i in range(2):
        checks.that(any(" receive " in line for line in lines_of("wire%d.pcapng" % i)), "frames of the wire")
        check_same("wire%d.pcapng" % i, "a card on a wire")


def flip(line, field):
    """The line with one bit of its data, its value or its time changed."""
    if field == "time":
        return re.sub(r"(\d)( fn=)", lambda m: str(int(m.group(1)) ^ 1) + m.group(2), line, count=1)
    return re.sub(r"(%s=(?:0x)?[0-9a-f]*)([0-9a-f])" % field, lambda m: m.group(1) + "%x" % (int(m.group(2), 16) ^ 1), line, count=1)


def check_planted():
    """A bit of what the card did: that record is named. A bit of what it got: one behind it."""
    lines = lines_of("plain.pcapng")
    cases = (("dma-write", "data", 0), ("frame-sent", "data", 0), ("interrupt", "value", 0), ("doorbell", "value", 0), ("advance", "value", 1),
             ("register-read", "value", 0), ("dma-write", "time", 0), ("dma-read", "address", 0), ("dma-read", "data", 1), ("load", "data", 1))
    for kind, field, is_input in cases:
        places = [i for i, line in enumerate(lines) if line.split()[2] == kind and field + "=" in line + "time="]
        if not places:
            checks.that(kind == "interrupt", "there is a %s" % kind)
            continue
        # entries of rings: of a payload the CRC of a frame would be another one
        at = places[len(places) // 2] if not is_input else places[len(places) // 4]
        with open(path("planted.txt"), "w") as file:
            file.writelines(lines[:at] + [flip(lines[at], field)] + lines[at + 1:])
        result = replay("planted.txt")
        named = re.search(r"record (\d+) differs\nlog : (.*)\ncard: (.*)\n", result.out)
        if is_input and result.code == 0:
            continue  # bytes that the card has no use for
        checks.code(result, 3, "a bit of the %s of a %s" % (field, kind))
        checks.that(named is not None and (int(named.group(1)) >= at + 1 if is_input else int(named.group(1)) == at + 1),
                    "record %d is named" % (at + 1), result)
        if named is not None and not is_input and kind != "dma-read":  # whose data the card did not get
            checks.that(named.group(2) + "\n" == flip(lines[at], field) and named.group(3) + "\n" == lines[at], "both sides", result)
        checks.code(replay("planted.txt", "--until", "@%d" % at), 0, "it is as it was before that")
    checks.that("replay.txt: %d records" % 100 in replay_lines(lines[:100]).out, "the beginning of a log")
    at = next(i for i, line in enumerate(lines) if i > 500 and line.split()[2] == "dma-write")
    for what, others in (("a record that is missing", lines[:at] + lines[at + 1:]), ("one that is there twice", lines[:at + 1] + lines[at:])):
        checks.code(replay_lines(others), 3, what)


def replay_lines(lines):
    with open(path("replay.txt"), "w") as file:
        file.writelines(lines)
    return replay("replay.txt")


def check_refused():
    lines = lines_of("plain.pcapng")
    checks.code(replay_lines(lines[1:]), 1, "a log without its beginning")
    hexadecimal = re.search("data=([0-9a-f]+)", lines[0]).group(1)
    for old, new in (("functions=0x100", "functions=0x101"), ("functions=0x100 ", ""), ("mtu=", "mtv="), ("mtu=", "mtu")):
        text = bytes.fromhex(hexadecimal).decode().replace(old, new)
        checks.that(old in bytes.fromhex(hexadecimal).decode(), "the card has " + old)
        first = re.sub(r"bytes=.*", "bytes=%d data=%s" % (len(text), text.encode().hex()), lines[0])
        checks.code(replay_lines([first] + lines[1:]), 1, "a card with " + (new or "no " + old))
    for wrong in (("--from", "@3"), ("--fn", "1"), ("--until-failed",), ("-o", path("x.txt")), ("--until", "@0"), ("--until", "@x"), ("--explain",)):
        checks.code(replay("plain.txt", *wrong), 2, "wrong usage: %r" % (wrong,))


def check_saved():
    """A card that is saved anywhere goes on as if it had not been; what is no such card is refused."""
    for name in ("plain.pcapng", "window.pcapng", "stores.pcapng", "bad.pcapng"):
        count = len(lines_of(name))
        for at in (1, count // 7, count // 2, count - count // 5):
            checks.code(replay(name, "--until", "@%d" % at, "--save", path("saved")), 0, "saved behind %d of %s" % (at, name))
            result = replay(name, "--load", path("saved"))
            checks.code(result, 0, "%s goes on behind %d" % (name, at))
            checks.that("%d records" % count in result.out, "up to its end", result)
    with open(path("saved"), "rb") as file:
        saved = file.read()
    checks.that(len(saved) < 8 << 20, "what was never used is not in it: %d bytes" % len(saved))
    # The card of an early record, which says that it is of a later one.
    checks.code(replay("plain.pcapng", "--until", "@40", "--save", path("early")), 0, "another card")
    with open(path("early"), "rb") as file:
        early = bytearray(file.read())
    early[16:24] = struct.pack("=Q", len(lines_of("plain.pcapng")) // 2)
    changes = ((early, 3), (saved[:100], 1), (saved[:-30], 1), (saved[:5000], 1), (b"VIPLCARE" + saved[8:], 1), (saved[:8] + b"\1\2\2\4" + saved[12:], 1),
               (saved.replace(b"functions=0x100", b"functions=0x0ff", 1), 1), (saved.replace(b" mtu=", b" mtv=", 1), 1))
    for changed, code in changes:
        with open(path("changed"), "wb") as file:
            file.write(changed)
        result = replay("plain.pcapng", "--load", path("changed"))
        checks.code(result, code, "a card of %d bytes" % len(changed))
    checks.code(replay("plain.pcapng", "--load", path("nowhere")), 1, "no card")
    checks.code(replay("plain.pcapng", "--until", "@40", "--save", "/dev/full"), 1, "a full disk")
    for wrong in (("--save", path("x")), ("--load", "")):
        checks.code(replay("plain.pcapng", *wrong), 2, "wrong usage: %r" % (wrong,))
    checks.code(run(program, "--load", path("saved"), path("plain.pcapng")), 2, "a card for no replay")


def check_hostile():
    """A log that is anything at all is replayed, differs or is damaged."""
    dice = random.Random(7)
    run(program, "--until", "@1500", "-o", path("short.pcapng"), path("plain.pcapng"))
    with open(path("short.pcapng"), "rb") as file:
        content = file.read()
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(dice.randrange(1, 4)):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
        with open(path("hostile.pcapng"), "wb") as file:
            file.write(changed)
        result = replay("hostile.pcapng")
        checks.that(result.code in (0, 1, 3), "a hostile log ends with %r" % result.code, result)


def check_conformance():
    adapter = serve("card", "--record", path("all.pcapng"))
    conformance = os.path.join(directory(), "vipl-conformance")
    result = run(conformance, "--device", "rnic:socket:" + path("card"), "--level", "full", limit_s=None)  # the test has a limit
    checks.code(result, 0, "conformance while it is recorded")
    adapter.signal(signal.SIGTERM)
    check_same("all.pcapng", "a conformance run")
    print(run(program, "--coverage", path("all.pcapng")).out)


try:
    if whole:
        check_conformance()
    else:
        check_cards()
        check_wire()
        check_planted()
        check_refused()
        check_saved()
        check_hostile()
finally:
    shutil.rmtree(folder)
checks.finish()
