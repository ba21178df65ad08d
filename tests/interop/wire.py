#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a program of this machine and one of another CPU put on the wire is the same, byte for byte, but for addresses, tags and
numbers that are drawn.

    wire.py NATIVE-FOLDER FOREIGN-FOLDER [EMULATOR...]

The same client, then the same server, once of each build; the other end is native. What it sends is captured, cut into start frame and FPDUs (RFC 5044), and
compared: sends with immediate data, RDMA Writes and Reads, of one FPDU and of several.
"""
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from capture import Capture  # noqa: E402
from checks import Checks  # noqa: E402
from hosts import SCALE, Host, need  # noqa: E402
from packets import SYN, Packets, flags_of, sequence_of  # noqa: E402

PORTS = (30000, 30255)  # of a namespace of our own
LIMIT_S = 60 * SCALE
LONGEST_MS = 3600000  # that the tools take
START_BYTES, CRC_BYTES, HEAD_TAGGED, HEAD_UNTAGGED = 20, 4, 14, 18
SEND_SE, READ_REQUEST, SEND, IMMEDIATE = 5, 1, 3, 8
FLAG_32_BIT = 8  # of the private data: about the program, not about the wire
# vipl-perf's own messages name its memory; its name on the wire is drawn. Its payloads are RDMA's.
RUNS = [
    ("vipl-ping", ["--size", "1", "--count", "3"], False),
    ("vipl-ping", ["--size", "3000", "--count", "3"], False),
    ("vipl-ping", ["--size", "200000", "--count", "2", "--reliability", "reception"], False),
    ("vipl-perf", ["--op", "all", "--test", "lat", "--size", "100..6400", "--iters", "3", "--warmup", "1", "--verify"], True),
]
checks = Checks()


def streams(file):
    """(source port, destination port) -> bytes, in the order of the first packet; each byte once."""
    found = {}
    packets = Packets.read(file)
    for number in range(1, len(packets.records) + 1):
        frame, payload = packets.payload(number)
        tcp = 34
        ports = struct.unpack("!HH", frame[tcp:tcp + 4])
        sequence = sequence_of(frame)
        total = struct.unpack("!H", frame[16:18])[0] + 14  # without Ethernet's padding
        if flags_of(frame) & SYN:
            found[ports] = [sequence + 1, {}]
        elif ports in found and total > payload:
            first, pieces = found[ports]
            pieces[(sequence - first) % 2 ** 32] = bytes(frame[payload:total])
    whole = {}
    for ports, (_, pieces) in found.items():
        data = b""
        for at in sorted(pieces):
            checks.that(at <= len(data), "a packet is missing in the capture")
            data += pieces[at][len(data) - at:]
        whole[ports] = data
    return whole


def masked(data, *ranges):
    data = bytearray(data)
    for first, length in ranges:
        data[first:first + length] = bytes(length)
    return bytes(data)


def start_frame(data, draws_names):
    """What an MPA request or reply says, and its length."""
    length = START_BYTES + struct.unpack("!H", data[18:20])[0]
    frame = bytearray(data[:length])
    private = START_BYTES + (4 if frame[16] & 0x10 and frame[17] == 2 else 0)  # behind RFC 6581's control
    at = data.find(b"VIPL", START_BYTES, length)
    checks.that(at in (private, START_BYTES, START_BYTES + 4), "a start frame without a VIPL peer's private data")
    frame[at + 6] &= ~FLAG_32_BIT & 0xFF
    if draws_names:
        frame[at + 26:] = bytes(length - at - 26)
    return bytes(frame), length


def fpdu(segment, names_memory):
    """A DDP segment without what is drawn."""
    if segment[0] & 0x80:  # tagged: a tag, an offset
        return masked(segment, (2, 4), (6, 8)), True
    operation = segment[1] & 0x0F
    if operation == READ_REQUEST:  # two tags, two addresses
        return masked(segment, (HEAD_UNTAGGED, 4), (HEAD_UNTAGGED + 4, 8), (HEAD_UNTAGGED + 16, 4), (HEAD_UNTAGGED + 20, 8)), True
    if names_memory and operation in (SEND, SEND_SE):
        return masked(segment, (HEAD_UNTAGGED, len(segment) - HEAD_UNTAGGED)), True
    return segment, False


def cut(data, drawn):
    """The start frame and the FPDUs of a stream."""
    frame, at = start_frame(data, drawn)
    units = [frame]
    while at < len(data):
        length = struct.unpack("!H", data[at:at + 2])[0]
        padded = (2 + length + 3) & ~3
        checks.that(at + padded + CRC_BYTES <= len(data), "an FPDU is not whole")
        segment, changed = fpdu(data[at + 2:at + 2 + length], drawn)
        rest = data[at + 2 + length:at + padded]
        checks.that(rest == bytes(len(rest)), "padding that is not zero")
        units.append(data[at:at + 2] + segment + (b"" if changed else data[at + padded:at + padded + CRC_BYTES]))
        at += padded + CRC_BYTES
    return units


def run(host, tool, options, server, client, file):
    """Both ends of a tool; what the client sent, and the server, in all connections."""
    env = {"VIPL_TCP_PORTS": "%d-%d" % PORTS, "VIPL_MPA_CRC": "on"}
    common = ["--device", "tcp:127.0.0.1", "--timeout", str(min(LIMIT_S * 500, LONGEST_MS)), "--discriminator", "wire"]
    capture = Capture(host, "lo", PORTS, file)
    try:
        waiting = host.start(*server, *common, "--server", "--once", env=env, stdout=subprocess.PIPE, universal_newlines=True)
        waiting.stdout.readline()  # it waits
        done = host.start(*client, *common, "--client", *options, env=env, stdout=subprocess.DEVNULL)
        checks.that(done.wait(LIMIT_S) == 0, "%s %s: the client" % (tool, options))
        waiting.communicate(timeout=LIMIT_S)
        checks.that(waiting.returncode == 0, "%s %s: the server" % (tool, options))
        capture.stop()
    finally:
        capture.close()
    sent = {True: [], False: []}
    for (source, to), data in streams(file).items():
        if data[:4] == b"MPA ":
            sent[PORTS[0] <= to <= PORTS[1]].append(data)
    return sent[True], sent[False]


def by_operation(units, drawn):
    """Sends, writes, requests and responses each in their order. vipl-perf's ends send at the same time: which of them comes first is chance."""
    groups = {}
    for number, unit in enumerate(units):
        key = unit[3] & 0x0F if drawn and number > 0 else None
        groups.setdefault(key, []).append(unit)
    return [unit for key in sorted(groups, key=str) for unit in groups[key]]


def compare(what, native, foreign, drawn):
    checks.that(len(native) == len(foreign) == 1 or len(native) == len(foreign), "%s: %d and %d connections" % (what, len(native), len(foreign)))
    count = 0
    for ours, theirs in zip(native, foreign):
        ours, theirs = by_operation(cut(ours, drawn), drawn), by_operation(cut(theirs, drawn), drawn)
        checks.that(len(ours) == len(theirs), "%s: %d and %d frames" % (what, len(ours), len(theirs)))
        for number, (one, other) in enumerate(zip(ours, theirs)):
            differing = [at for at, (a, b) in enumerate(zip(one, other)) if a != b]
            checks.that(len(one) == len(other) and not differing, "%s: frame %d differs at %s:\n  %s\n  %s" % (
                what, number, differing[:8], one[:80].hex(), other[:80].hex()))
        count += len(ours)
    print("%s: %d frames are the same" % (what, count))
    return count


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: %s NATIVE-FOLDER FOREIGN-FOLDER [EMULATOR...]" % sys.argv[0])
    need("ip", "dumpcap")
    native, foreign = [os.path.join(sys.argv[1], "")], sys.argv[3:] + [os.path.join(sys.argv[2], "")]
    frames = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for number, (tool, options, drawn) in enumerate(RUNS):
            host = Host()
            command = {"native": [native[0] + tool], "foreign": foreign[:-1] + [foreign[-1] + tool]}
            sent = {}
            for server, client in (("native", "native"), ("native", "foreign"), ("foreign", "native")):
                file = os.path.join(folder, "%d-%s-%s" % (number, server, client))
                sent[server, client] = run(host, tool, options, command[server], command[client], file)
            name = "%s %s" % (tool, " ".join(options))
            frames += compare(name + ", a client", sent["native", "native"][0], sent["native", "foreign"][0], drawn)
            frames += compare(name + ", a server", sent["native", "native"][1], sent["foreign", "native"][1], drawn)
    checks.that(frames > 100, "only %d frames in all" % frames)
    checks.finish()


if __name__ == "__main__":
    main()
