# SPDX-License-Identifier: MIT
"""What tshark, with tools/wireshark/efe.lua, sees in EFE's frames is what is in them.

usage: efe_tshark.py PROGRAM-THAT-WRITES-A-CAPTURE DISSECTOR

The frames are read here a second time, by the table of docs/rnic/efe.md alone, and every field is compared.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from checks import Checks  # noqa: E402
from lua_tshark import with_script  # noqa: E402

DATA, ACK, CONTROL, MESSAGE_ACK, PROBE, RESET = range(1, 7)
TYPES = {DATA: 300, ACK: 50, CONTROL: 50, MESSAGE_ACK: 10, PROBE: 1, RESET: 1}  # so many frames at least
OPCODES = (0, 1, 2, 3, 7)  # Write, Read Request, Read Response, Send, Terminate
UNTAGGED_QUEUES = {1: 1, 3: 0, 7: 2}
HEADER = (("efe.length", "H"), ("efe.from_fn", "H"), ("efe.to_fn", "H"), ("efe.epoch", "I"), ("efe.sequence", "I"),
          ("efe.next_expected", "I"), ("efe.window", "H"), ("efe.to_qp", "H"), ("efe.from_qp", "H"), ("efe.zero", "H"),
          ("efe.left", "I"), ("efe.message", "I"), ("efe.sent", "I"), ("efe.echo", "I"), ("efe.held", "I"))
FLAGS = (("efe.flags.first", 0x80), ("efe.flags.last", 0x40), ("efe.flags.ack_now", 0x20), ("efe.flags.new", 0x10))
SEEN = ["efe.version", "efe.type"] + [name for name, _ in FLAGS] + [name for name, _ in HEADER] + [
    "efe.sequence.relative", "efe.sacked", "efe.payload", "efe.crc", "efe.crc.status", "efe.padding"]
DDP = ["iwarp_rdma.opcode", "iwarp_ddp.stag", "iwarp_ddp.tagged_offset", "iwarp_ddp.qn", "iwarp_ddp.msn", "iwarp_ddp.mo"]
WRONG = ["_ws.malformed", "_ws.lua.error", "efe.cut", "efe.unknown", "efe.wrong_length"]
checks = Checks()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def records(file):
    with open(file, "rb") as stream:
        data = stream.read()
    at = 24
    while at < len(data):
        size = struct.unpack("<I", data[at + 8:at + 12])[0]
        yield data[at + 16:at + 16 + size]
        at += 16 + size


def ddp_of(segment):
    """The fields of a DDP segment's header, by RFC 5041 and RFC 5040."""
    fields = {"iwarp_rdma.opcode": segment[1] & 15}
    if segment[0] & 0x80:
        fields["iwarp_ddp.stag"], fields["iwarp_ddp.tagged_offset"] = struct.unpack(">IQ", segment[2:14])
    else:
        fields["iwarp_ddp.qn"], fields["iwarp_ddp.msn"], fields["iwarp_ddp.mo"] = struct.unpack(">III", segment[6:18])
    return fields


def is_whole(frame):
    """Whether a frame that may be damaged can be read at all."""
    end = 62 + int.from_bytes(frame[16:18], "big")
    length_fits = {ACK: end == 94, PROBE: end == 62, RESET: end == 62}.get(frame[14] & 15, True)
    return frame[12:14] == b"\x88\xb5" and frame[14] >> 4 == 1 and frame[14] & 15 in TYPES and end + 4 <= len(frame) and length_fits


def expected(frame):
    """name: value of all fields that the frame has; a list where there may be several."""
    fields = {"efe.version": frame[14] >> 4, "efe.type": frame[14] & 15}
    fields.update((name, int(frame[15] & bit != 0)) for name, bit in FLAGS)
    values = struct.unpack(">" + "".join(kind for _, kind in HEADER), frame[16:62])
    fields.update(zip((name for name, _ in HEADER), values))
    fields["efe.sequence.relative"] = (fields["efe.sequence"] - fields["efe.epoch"]) % 2**32
    end = 62 + fields["efe.length"]
    payload = frame[62:end]
    fields["efe.crc"] = struct.unpack("<I", frame[end:end + 4])[0]
    good = fields["efe.crc"] == crc32c(frame[:end])
    fields["efe.crc.status"] = int(good)
    if len(frame) > end + 4:
        fields["efe.padding"] = frame[end + 4:].hex()
    if good and fields["efe.type"] == ACK:
        bits = "".join("{:08b}".format(byte) for byte in payload)
        fields["efe.sacked"] = [(fields["efe.next_expected"] + i) % 2**32 for i, bit in enumerate(bits) if bit == "1"]
    elif good and fields["efe.type"] == DATA:
        fields.update(ddp_of(payload))
    elif good and payload:
        fields["efe.payload"] = payload.hex()
    return fields


def seen_by_tshark(file, dissector, folder):
    names = SEEN + DDP + WRONG
    command = with_script(dissector, folder) + ["-r", file, "-T", "fields"]
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False,
                          env=dict(os.environ, WIRESHARK_CONFIG_DIR=folder))
    if done.returncode != 0 or "Lua" in done.stderr:
        sys.exit("FAILED: tshark: " + done.stderr)
    for line in done.stdout.splitlines():
        yield {name: text for name, text in zip(names, line.split("\t")) if text}


def number(text):
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def compare(index, frame, seen):
    wanted = expected(frame)
    for name in SEEN + DDP:
        value, text = wanted.get(name), seen.get(name)
        if isinstance(value, list):
            value, text = value or None, [number(one) for one in text.split(",")] if text else None
        elif isinstance(value, int) and text is not None:
            text = number(text)
        elif text is not None:
            text = text.replace(":", "")
        checks.that(value == text, "frame %d: %s is %r, and tshark has %r" % (index, name, value, text))
    checks.that(not any(name in seen for name in WRONG), "frame %d: tshark finds fault: %r" % (index, seen))
    return wanted


def judge(file, dissector, folder):
    types, opcodes, bad, selective = {}, {}, 0, 0
    frames, seen = list(records(file)), list(seen_by_tshark(file, dissector, folder))
    checks.that(len(frames) == len(seen), "%d frames, and tshark has %d" % (len(frames), len(seen)))
    for index, (frame, fields) in enumerate(zip(frames, seen), 1):
        if not is_whole(frame):
            checks.that("iwarp_rdma.opcode" not in fields, "frame %d is damaged, and tshark reads a segment in it" % index)
            bad += 1
            continue
        wanted = compare(index, frame, fields)
        types[wanted["efe.type"]] = types.get(wanted["efe.type"], 0) + 1
        bad += not wanted["efe.crc.status"]
        selective += bool(wanted.get("efe.sacked"))
        if "iwarp_rdma.opcode" in wanted:
            opcode = wanted["iwarp_rdma.opcode"]
            opcodes[opcode] = opcodes.get(opcode, 0) + 1
            checks.that(wanted.get("iwarp_ddp.qn") == UNTAGGED_QUEUES.get(opcode), "frame %d: its queue" % index)
    print("%d frames: types %r, operations %r, %d with a bad CRC, %d selective" % (len(frames), types, opcodes, bad, selective))
    for kind, least in TYPES.items():
        checks.that(types.get(kind, 0) >= least, "fewer than %d frames of type %d" % (least, kind))
    checks.that(all(opcodes.get(opcode, 0) >= 10 for opcode in OPCODES), "all operations")
    checks.that(bad >= 5, "frames with a bad CRC")
    checks.that(selective >= 10, "selective acknowledgments")


def judge_damage(file, dissector, folder):
    """Frames whose lengths, version or type lie are named, and nothing is read behind their end."""
    good = next(frame for frame in records(file) if frame[14] == 0x11 and len(frame) > 100)
    cases = [("efe.cut", good[:40]), ("efe.cut", good[:70]), ("efe.cut", good[:16] + b"\xff\xff" + good[18:]),
             ("efe.unknown", good[:14] + b"\x21" + good[15:]), ("efe.unknown", good[:14] + b"\x17" + good[15:]),
             ("efe.wrong_length", good[:14] + b"\x15" + good[15:]), ("efe.crc.bad", good[:80] + b"\x99" + good[81:])]
    path = os.path.join(folder, "damaged")
    with open(path, "wb") as stream:
        stream.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for _, frame in cases:
            stream.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    for index, (name, _) in enumerate(cases, 1):
        done = subprocess.run(with_script(dissector, folder) + ["-r", path, "-Y", name, "-T", "fields", "-e", "frame.number"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=True)
        checks.that(str(index) in done.stdout.split(), "case %d is not named %s" % (index, name))


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: efe_tshark.py PROGRAM-THAT-WRITES-A-CAPTURE DISSECTOR")
    if shutil.which("tshark") is None:
        print("cannot run: not installed: tshark")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "capture")
        subprocess.run([sys.argv[1], file], check=True)
        judge(file, sys.argv[2], folder)
        judge_damage(file, sys.argv[2], folder)
    checks.finish()


if __name__ == "__main__":
    main()
