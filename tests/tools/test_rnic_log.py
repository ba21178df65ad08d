# SPDX-License-Identifier: MIT
"""vipl-rnic-log: the formats turn into each other without loss, damage is named with its place, selections are exact,
and rings are followed in either byte order."""
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, Running, directory, run, signal  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "src", "rnic"))
sys.dont_write_bytecode = True
import registers as R  # noqa: E402

checks = Checks()
program = os.path.join(directory(), "vipl-rnic-log")
folder = tempfile.mkdtemp(prefix="vipl-rnic-log-")


def path(name):
    return os.path.join(folder, name)


def write(name, content):
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path(name)


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def log(*arguments):
    return run(program, *arguments)


class Log:
    """A function's log, a line for each transaction, a microsecond apart."""

    def __init__(self, fn, big):
        self.fn, self.order, self.lines, self.time, self.used = fn, ">" if big else "<", [], 5 * 10**9, {}
        for name, value in (("COMMAND_BASE", 0x10000), ("ANSWER_BASE", 0x20000), ("EVENT_BASE", 0x30000)):
            self.store(getattr(R, "RNIC_REG_%s_LO" % name), value)
            self.store(getattr(R, "RNIC_REG_%s_HI" % name), 0x7)
        self.store(R.RNIC_REG_COMMAND_LOG2, 4)
        self.store(R.RNIC_REG_EVENT_LOG2, 2)
        self.store(R.RNIC_REG_CTRL, R.RNIC_CTRL_ENABLE | (R.RNIC_CTRL_BYTE_ORDER if big else 0))

    def add(self, kind, bar=0, address=0, value=0, size=0, data=None, failed=False):
        self.time += 1000
        self.lines.append("%d.%09d fn=%d %s%s bar=%d address=0x%x value=0x%x bytes=%d%s\n" % (
            self.time // 10**9, self.time % 10**9, self.fn, kind, " failed" if failed else "", bar, address, value,
            len(data) if data is not None else size, "" if data is None else " data=" + data.hex()))

    def store(self, register, value):
        self.add("register-write", address=register, value=value, size=4)

    def entry(self, size, fields):
        out = bytearray(size)
        for offset, width, value in fields:
            struct.pack_into(self.order + {1: "B", 2: "H", 4: "I", 8: "Q"}[width], out, offset, value)
        return bytes(out)

    def command(self, opcode, object=0, status=0, info=0, fields=(), late=False):
        slot = self.used["command"] = self.used.get("command", -1) + 1
        self.add("dma-read", address=0x700010000 + slot % 16 * 64, data=self.entry(64, [
            (R.RNIC_CMD_OPCODE, 2, opcode), (R.RNIC_CMD_OBJECT, 4, object), *fields]))
        if not late:
            self.answer(object, status, info)

    def answer(self, object=0, status=0, info=0):
        self.add("dma-write", address=0x700020000 + self.used["command"] % 16 * 32, data=self.entry(28, [
            (R.RNIC_CQE_QP, 4, object), (R.RNIC_CQE_STATUS, 2, status), (R.RNIC_CQE_INFO, 4, info)]))

    def completion(self, base, qp, opcode, status=0):
        self.add("dma-write", address=base, data=self.entry(28, [
            (R.RNIC_CQE_QP, 4, qp), (R.RNIC_CQE_OPCODE, 1, opcode), (R.RNIC_CQE_STATUS, 2, status)]))

    def event(self, kind, code=0, object=0):
        slot = self.used["event"] = self.used.get("event", -1) + 1
        self.add("dma-write", address=0x700030000 + slot % 4 * 512, data=self.entry(508, [
            (R.RNIC_EVT_KIND, 2, kind), (R.RNIC_EVT_CODE, 2, code), (R.RNIC_EVT_OBJECT, 4, object)]))

    def modify(self, qp, state, **more):
        self.command(R.RNIC_COMMAND_MODIFY_QP, qp, fields=[(R.RNIC_CMD_QP_STATE, 1, state)], **more)


def life(big, fn=2):
    """A queue pair from its beginning to its end."""
    life = Log(fn, big)
    ring = [(R.RNIC_CMD_RING_LOG2, 2, 3), (R.RNIC_CMD_RING_BASE, 8, 0x900000)]
    cq = [(R.RNIC_CMD_CQ_LOG2, 2, 4), (R.RNIC_CMD_CQ_BASE, 8, 0x800000)]
    life.command(R.RNIC_COMMAND_CREATE_CQ, info=5, fields=cq)
    life.command(R.RNIC_COMMAND_CREATE_QP, info=7)
    life.command(R.RNIC_COMMAND_SET_RING, 7, fields=ring)
    life.modify(7, R.RNIC_QP_STATE_CONNECTED)
    life.add("doorbell", 2, R.RNIC_DB_QP + 7 * 64, 1)
    life.add("dma-read", address=0x900000 + 2 * 64, data=life.entry(64, [(R.RNIC_WQE_OPCODE, 1, R.RNIC_WORK_READ)]))
    life.completion(0x800000 + 32, 7, R.RNIC_WORK_READ, R.RNIC_STATUS_REMOTE_ACCESS)
    life.completion(0x800000 + 5, 7, R.RNIC_WORK_WRITE)    # no entry: it has another place
    life.completion(0x800000 + 512, 7, R.RNIC_WORK_WRITE)  # ... it is behind the ring's end
    life.modify(7, R.RNIC_QP_STATE_CLOSING, late=True)
    life.completion(0x800000 + 64, 7, R.RNIC_WORK_DRAINED)
    life.answer(7)
    life.event(R.RNIC_EVENT_QP_ERROR, R.RNIC_ERROR_READ_DENIED, 7)
    life.modify(7, R.RNIC_QP_STATE_IDLE)
    life.modify(7, R.RNIC_QP_STATE_CONNECTED, status=R.RNIC_STATUS_WRONG_STATE)
    life.command(R.RNIC_COMMAND_ASSIGN_WINDOW, 7, info=3)
    slot = R.RNIC_DB_WINDOWS + 3 * R.RNIC_WINDOW_BYTES + 2 * R.RNIC_WINDOW_SLOT_BYTES
    life.add("window", 2, slot, 11, data=life.entry(48, [
        (R.RNIC_WINDOW_BEGIN, 4, 11), (R.RNIC_WINDOW_END, 4, 11), (R.RNIC_WINDOW_OPCODE, 1, R.RNIC_WORK_SEND), (R.RNIC_WINDOW_LENGTH, 2, 6)]))
    life.add("window", 2, slot + 48, 11, data=b"window")
    life.command(R.RNIC_COMMAND_SET_TEMPLATE, 7, fields=[
        (R.RNIC_CMD_TEMPLATE_PAGE, 2, 255), (R.RNIC_CMD_TEMPLATE_REMOTE_STAG, 4, 0x20305), (R.RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, 8, 0x10000)])
    page = R.RNIC_REG_AOTF + 255 * R.RNIC_AOTF_PAGE_BYTES
    life.add("register-write", address=page + 24, value=0x1122, size=2)
    life.command(R.RNIC_COMMAND_DESTROY_QP, 7)
    life.add("register-write", address=page + 16, value=0x33, size=1)  # it has no template any more
    life.add("window", 2, slot, 19, data=bytes(48))  # it is no queue pair's
    life.add("register-read", address=R.RNIC_REG_ERROR_CODE, value=R.RNIC_ERROR_RING_INDEX, size=4)
    life.add("dma-write", address=0x5000, data=b"\0\1\2", failed=True)
    life.add("interrupt", value=3)
    life.add("sleep", value=1)
    return life


def check_formats():
    text = "".join(life(False).lines)
    source = write("a.txt", text)
    result = log(source)
    checks.code(result, 0, "printing a text")
    checks.that(result.out == text, "the text is as it was", result)
    checks.code(log("-o", path("a.pcapng"), source), 0, "to pcapng")
    checks.code(log("--output=" + path("b.txt"), path("a.pcapng")), 0, "and back")
    checks.that(read("b.txt").decode() == text, "nothing is lost on the way")
    checks.code(log("-o", path("b.pcapng"), path("b.txt")), 0, "to pcapng again")
    checks.that(read("a.pcapng") == read("b.pcapng"), "the same bytes")
    return text


def block(order, kind, body):
    return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)


def section(order):
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order, link, decimals=None):
    options = b"" if decimals is None else struct.pack(order + "HHB3xHH", 9, 1, decimals, 0, 0)
    return block(order, 1, struct.pack(order + "HHI", link, 0, 0) + options)


def packet(order, number, time, data, options=b""):
    padded = data + bytes(-len(data) % 4)
    return block(order, 6, struct.pack(order + "IIIII", number, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + padded + options)


def check_foreign_pcapng():
    """What another program may have made of a log: the other byte order, other interfaces and blocks, other resolutions."""
    frame = bytes(range(60))
    way = struct.pack(">HHIHHIHH", 2, 4, 1, 6, 4, 258, 0, 0)
    one = struct.pack(">BBHBBHQQI", 1, 4, 300, 2, 0, 0, 0x400000, 9, 0)
    foreign = (section(">") + block(">", 0x80000BAD, b"\0\0\0\1mine") + interface(">", 113, 9) + interface(">", 147) + interface(">", 1, 3) +
               packet(">", 0, 1, b"other") + packet(">", 1, 1500001, one) + packet(">", 2, 1501, frame, way))
    result = log(write("foreign", foreign))
    checks.code(result, 0, "a log that has been elsewhere")
    checks.that(result.out == "1.500001000 fn=300 doorbell bar=2 address=0x400000 value=0x9 bytes=0\n"
                "1.501000000 fn=258 frame-received bar=0 address=0x0 value=0x0 bytes=60 data=%s\n" % frame.hex(), "its transactions", result)
    return foreign


def check_damage(text, foreign):
    """Each cut of a log gives what stands before, and says where it ends; none is taken for a whole log."""
    whole = text[:700]
    for length in range(1, len(whole), 23):
        if whole[length - 1] != "\n":
            result = log(write("cut.txt", whole[:length]))
            checks.code(result, 1, "a text cut at %d" % length)
            checks.that(result.out == whole[:whole.rfind("\n", 0, length) + 1], "what stands before %d" % length, result)
            checks.that("cut.txt: line %d: " % (whole.count("\n", 0, length) + 1) in result.err, "the line", result)
    ends, at = set(), 0
    while at < len(foreign):
        at += struct.unpack(">I", foreign[at + 4:at + 8])[0]
        ends.add(at)
    for length in set(range(1, len(foreign), 7)) - ends:
        checks.code(log(write("cut", foreign[:length])), 1, "a file cut at %d" % length)
    for name, content, says in (("other", b"\x7fELF" * 9, "it is no log"),
                                ("two", foreign[:-4] + b"\0\0\0\1", "two lengths"), ("none", section(">") + packet(">", 0, 1, b"x"), "of no interface"),
                                ("kind", section("<") + interface("<", 147, 9) + packet("<", 0, 1, bytes([1, 24]) + bytes(26)), "none of this version"),
                                ("huge", section("<") + struct.pack("<II", 6, 0x7FFFFFF0), "an impossible length"),
                                ("number.txt", text.replace("fn=2 ", "fn=-2 ", 1), "not one of a log"),
                                ("data.txt", text.replace(" bytes=64 ", " bytes=65 ", 1), "as many bytes as it says")):
        result = log(write(name, content))
        checks.code(result, 1, name)
        checks.that(says in result.err, "what is wrong with %s" % name, result)
    checks.code(log(write("empty.txt", b"")), 0, "a log in which nothing has happened yet")
    checks.code(log(path("nowhere")), 1, "no file")
    checks.code(log(folder), 1, "a folder")


def check_selection(text):
    lines = text.splitlines(True)
    cases = ((("--kind", "doorbell,interrupt"), lambda l: " doorbell " in l or " interrupt " in l),
             (("--fn", "1,3"), lambda l: False), (("--fn", "2"), lambda l: True),
             (("--from", "5.000010"), lambda l: l >= "5.000010"), (("--until", "5.000004"), lambda l: l <= "5.000004001"),
             (("--from", "@3", "--until", "@5"), lambda l: l in lines[2:5]), (("-f", "@7", "-k", "dma-read"), lambda l: l in lines[6:] and " dma-read " in l),
             (("-f", "+0.000003", "-u", "+0.000005"), lambda l: "5.000004" <= l <= "5.000006001"))
    for options, wanted in cases:
        result = log(*options, path("a.txt"))
        checks.that(result.code == 0 and result.out == "".join(filter(wanted, lines)), "selected by " + " ".join(options), result)
    result = log("--until-failed", path("a.txt"))
    checks.that(result.out == text[:text.index("\n", text.index(" failed ")) + 1], "up to the refused DMA", result)
    other = life(False, 3)
    other.command(R.RNIC_COMMAND_QUERY_QP, 8)
    mixed = write("mixed.txt", "".join(other.lines))
    words = log("--explain", "--qp", "7", mixed).out
    checks.that(words.count("\n") == 25 and "object=8" not in words and "CREATE_CQ" not in words, "all of one queue pair: " + words)
    checks.that(log("--qp", "8", "-e", mixed).out.count("\n") == 2, "and of another")


def check_rings():
    coverage = {}
    for big in (False, True):
        name = write("%s.txt" % ("big" if big else "little"), "".join(life(big).lines))
        words = log("-e", name).out
        for part in ("write CTRL value=0x%x" % (5 if big else 1), "command CREATE_CQ object=0 entries=16 base=0x800000", "answer CREATE_QP OK object=0 info=7",
                     "command SET_RING object=7 entries=8 base=0x900000", "command MODIFY_QP object=7 state=CONNECTED", "doorbell qp=7 SQ index=1",
                     "work qp=7 READ", "completion cq=5 qp=7 READ REMOTE_ACCESS", "completion cq=5 qp=7 DRAINED OK", "event QP_ERROR object=7 code=READ_DENIED",
                     "answer MODIFY_QP WRONG_STATE", "window qp=7 index=11 SEND length=6", "window qp=7 payload", "command SET_TEMPLATE object=7 page=255", "store qp=7 stag=0x20305 remote=0x10018 bytes=2 value=0x1122", "write AOTF page=255 offset=16 bytes=1 value=0x33", "window address=0xc03400 bytes=48", "read ERROR_CODE value=0x11", "dma-write failed address=0x5000 bytes=3", "interrupt vector=3", "sleep"):
            checks.that(" fn=2 %s" % part in words, "%s in words" % part)
        checks.that(words.count(" completion ") == 2, "what is no entry is none")
        result = log("--coverage", "--json", name)
        checks.code(result, 0, "coverage")
        coverage[big] = checks.json(result.out, "coverage as JSON")
    found = coverage[False]
    checks.that(found == coverage[True], "the same in both byte orders")
    touched = {name: part["touched"] for name, part in found.items() if name != "schema"}
    checks.that(touched == {"registers read": 1, "registers written": 10, "COMMAND": 7, "STATUS": 3, "EVENT": 1, "ERROR": 2, "WORK": 3, "QP_STATE": 4,
                            "EFE_TYPE": 0, "CONTROL": 0, "transitions": 4}, "what was touched: %r" % touched)
    checks.that(found["transitions"]["never"] == ["IDLE-RECEIVE", "IDLE-ERROR", "RECEIVE-CONNECTED", "RECEIVE-ERROR", "CONNECTED-ERROR"],
                "the names of what never was: %r" % found["transitions"])
    for name, part in found.items():
        if name != "schema":
            checks.that(part["touched"] + len(part["never"]) == part["of"], "the sum of " + name)
    more = Log(1, False)
    more.command(R.RNIC_COMMAND_NOP)
    both = checks.json(log("-cj", write("more.txt", "".join(more.lines)), path("big.txt")).out, "of two logs")
    checks.that(both["COMMAND"]["touched"] == 8, "the logs add up")
    text = log("--coverage", path("big.txt")).out
    checks.that("\nEVENT: 1 of 5; never: CONTROL LINK CATASTROPHIC PEER_LOST\n" in text, "coverage as text: " + text)


def check_waveform(text):
    checks.code(log("-o", path("a.vcd"), path("a.txt")), 0, "a waveform")
    head, body = read("a.vcd").decode().split("$enddefinitions $end\n")
    names = {identifier: name for identifier, name in re.findall(r"\$var \S+ \d+ (\S+) (\S+) \$end", head)}
    checks.that(head.count("$scope module fn2 $end") == 1 and head.count("$scope") == 1, "one scope")
    checks.that(sorted(names.values()).count("register_write") == 1 and len(names) == 18, "the variables: %r" % names)
    at, rises, falls, values, times = -1, [], 0, {}, []
    for line in body.splitlines():
        if line.startswith("#"):
            checks.that(int(line[1:]) > at or at < 1, "the time goes on")
            at = int(line[1:])
        elif line.startswith("b"):
            value, identifier = line[1:].split(" ")
            values.setdefault(names[identifier], []).append(int(value, 2))
        elif line[0] in "01" and names[line[1:]] != "failed":
            rises += [names[line[1:]]] if line[0] == "1" else []
            times += [at] if line[0] == "1" else []
            falls += line[0] == "0"
    kinds = [re.match(r"\S+ fn=2 (\S+)", line).group(1).replace("-", "_") for line in text.splitlines()]
    checks.that(rises == kinds and falls == len(kinds) + 13, "a pulse for each transaction, in order")
    checks.that(times == [1000000 * i for i in range(len(kinds))], "at its time")
    checks.that(values["address"] == [int(a, 16) for a in re.findall(r"address=0x(\w+)", text)], "the addresses")
    same = re.sub(r"^\S+", "1.000000000", text, flags=re.M)
    log("-o", path("same.vcd"), write("same.txt", same))
    stamps = re.findall(r"^#(\d+)$", read("same.vcd").decode(), re.M)[1:]
    checks.that(stamps == [str(i) for i in range(2 * len(kinds))], "those of one time are apart")


def check_usage():
    for wrong in ((), ("--json", path("a.txt")), (path("a.txt"), path("a.txt")), ("--from", "1.0000000001", path("a.txt")), ("--from", "-1", path("a.txt")), ("--from", "@0", path("a.txt")), ("--until", "@1x", path("a.txt")),
                  ("--kind", "dma", path("a.txt")), ("--fn", "256", path("a.txt")), ("--fn", "1,", path("a.txt")), ("--qp", "x", path("a.txt")),
                  ("-e", "-c", path("a.txt")), ("-o", path("a.txt"), path("a.txt"))):
        checks.code(log(*wrong), 2, "wrong usage: %r" % (wrong,))
    checks.that(read("a.txt") != b"", "the log that was to be overwritten is there")
    checks.code(log("-o", "/dev/full", path("a.txt")), 1, "a full disk")
    checks.code(log("-c", "-o", "/dev/full", path("a.txt")), 1, "a full disk")


def check_card():
    """The log of a card: what its driver did is in it, and pcapng says the same as text."""
    rnicd, ping = os.path.join(directory(), "..", "libexec", "vipl-rnicd"), os.path.join(directory(), "vipl-ping")
    adapter = Running(rnicd, "--socket", path("card"), "--log", path("card.pcapng"))
    until = time.monotonic() + 30
    while run(rnicd, "--stats", "--socket", path("card")).code != 0 and adapter.process.poll() is None and time.monotonic() < until:
        pass
    device = "rnic:socket:" + path("card")
    checks.code(run(ping, "--pair", "--device", device, "--count", "3"), 0, "a ping")
    adapter.signal(signal.SIGTERM)
    checks.code(log("-o", path("card.txt"), path("card.pcapng")), 0, "as text")
    as_text, as_pcapng = (log("-cj", path("card" + end)).out for end in (".txt", ".pcapng"))
    checks.that(as_text == as_pcapng, "both formats say the same")
    found = json.loads(as_text)
    for part, name in (("COMMAND", "CREATE_QP"), ("COMMAND", "REGISTER"), ("COMMAND", "SEND_CONTROL"), ("WORK", "SEND"), ("WORK", "RECEIVE"),
                       ("EFE_TYPE", "DATA"), ("CONTROL", "REQUEST"), ("EVENT", "CONTROL"), ("transitions", "ERROR-IDLE")):
        checks.that(name not in found[part]["never"], "%s %s is there" % (part, name))
    checks.that("frame-sent DATA qp=" in log("-e", "-k", "frame-sent", path("card.pcapng")).out, "frames in words")


try:
    the_text = check_formats()
    check_damage(the_text, check_foreign_pcapng())
    check_selection(the_text)
    check_rings()
    check_waveform(the_text)
    check_usage()
    if os.path.exists(os.path.join(directory(), "..", "libexec", "vipl-rnicd")):
        check_card()
finally:
    shutil.rmtree(folder)
checks.finish()
