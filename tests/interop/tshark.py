# SPDX-License-Identifier: MIT
"""The conformance suite over sockets, every packet of it captured and judged by tshark.

usage: tshark.py DIRECTORY-OF-THE-PROGRAMS RUN

RUN is 0, with CRC, or 1, without; the cases in which one side ends the connection with a Terminate, or is
killed, are among them. Then the judge
is judged: captures that one byte, or a packet, has been spoilt in must be found to be wrong, for the right reason.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from capture import Capture  # noqa: E402
from checks import Checks  # noqa: E402
from hosts import SCALE, Host, need  # noqa: E402
from judge import IMMEDIATE, NAMES, TERMINATE, Judge, tshark  # noqa: E402
from lua_tshark import with_script  # noqa: E402
from packets import Packets, cut  # noqa: E402

PORTS = (30000, 30255)  # of a namespace of our own
# A program whose own memory goes away ends its stream in the middle of an FPDU, and no peer has told it to: not these.
RUNS = [
    {"device": "tcp:127.0.0.1", "crc": "on", "options": ["~[lost]"], "connections": 600, "fpdus": 15000},
    {"device": "tcp:::1", "crc": "off", "options": ["--mode", "procs", "[procs]~[lost]"], "connections": 300, "fpdus": 8000},
]
MIN = 8  # of each operation
# Two CPUs' packets may be captured in another order than sent; Wireshark knows MPA by the order in which a stream begins.
ONE_CPU = str(min(os.sched_getaffinity(0)))
checks = Checks()


def captured_run(programs, run, file):
    host = Host()
    capture = Capture(host, "lo", PORTS, file)
    env = {"VIPL_TCP_PORTS": "%d-%d" % PORTS, "VIPL_MPA_CRC": run["crc"]}
    try:
        suite = host.start("taskset", "-c", ONE_CPU, os.path.join(programs, "vipl-conformance"), "--device", run["device"], *run["options"],
                           env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        out, _ = suite.communicate(timeout=100 * SCALE)
        checks.that(suite.returncode == 0, "the conformance suite:\n" + out)
        print(out.splitlines()[-1])
        capture.stop()
    finally:
        capture.close()


def judge_run(run, file):
    verdict = Judge(file)
    print(verdict.report())
    checks.that(not verdict.problems, "%s, CRC %s: see above" % (run["device"], run["crc"]))
    checks.that(verdict.counts["connections"] >= run["connections"], "there were fewer connections than in a whole run")
    checks.that(verdict.counts["FPDUs"] >= run["fpdus"], "there were fewer FPDUs than in a whole run")
    checks.that(verdict.counts["good CRCs"] == (verdict.counts["FPDUs"] if run["crc"] == "on" else 0),
                "CRCs where they are wanted, and nowhere else")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "wireshark", "rdmap.lua")
    program = with_script(script, os.path.dirname(file))
    named = sum(line.count("Immediate Data") for part in verdict.parts for line in tshark(
        part, "-Y", "vipl_rdmap.name", "-T", "fields", "-e", "vipl_rdmap.name", program=program))
    checks.that(named == verdict.opcodes[IMMEDIATE], "%d messages are immediate data, and tools/wireshark/rdmap.lua names %d" % (
        verdict.opcodes[IMMEDIATE], named))
    for operation, name in NAMES.items():
        checks.that(verdict.opcodes[operation] >= MIN, "fewer than %d of: %s" % (MIN, name))


def one_stream(file, out):
    """A stream of more than one Send; the number there of a packet that is one Send of some length, and no other."""
    wanted = "iwarp_rdma.opcode == 3 && iwarp_ddp.msn == 2 && tcp.len > 60 && tcp.len < 1000"
    fields = ["-T", "fields", "-e", "tcp.stream", "-e", "iwarp_rdma.opcode", "-e", "frame.number"]
    lines = [line.split() for line in tshark(file, "-Y", wanted, *fields)]
    stream = next(line[0] for line in lines if "," not in line[1])
    list(tshark(file, "-Y", "tcp.stream == " + stream, "-F", "pcap", "-w", out))
    return next(int(line.split()[2]) for line in tshark(out, "-Y", wanted, *fields))


def set_byte(offset, change):
    def spoil(packets, number):
        frame, payload = packets.payload(number)
        at = payload + offset if offset >= 0 else len(frame) + offset
        frame[at] = change(frame[at]) & 0xFF
    return spoil


def remove(packets, number):
    del packets.records[number - 1]


# What is spoilt in one FPDU; what the judge must say. Without CRC where another fault is to be seen by itself.
SPOILT = [
    (0, "a byte of data", set_byte(24, lambda byte: byte ^ 0x10), "Bad CRC32"),
    (0, "the CRC", set_byte(-1, lambda byte: byte ^ 1), "Bad CRC32"),
    (0, "a packet lost", remove, "bytes are no MPA"),
    (1, "the operation", set_byte(3, lambda byte: byte | 0x0F), "operation 15"),
    (1, "RDMAP's version", set_byte(3, lambda byte: byte & 0x3F), "a version other than 1"),
    (1, "DDP's version", set_byte(2, lambda byte: byte | 3), "a version other than 1"),
    (1, "the queue", set_byte(11, lambda byte: byte + 1), "another queue"),
    (1, "the message's number", set_byte(15, lambda byte: byte + 1), "queue 0: message 3"),
    (1, "the message's offset", set_byte(19, lambda byte: byte + 4), "offset 4, not 2 and 0"),
    (1, "the FPDU's length", set_byte(1, lambda byte: byte + 8), ""),  # what follows is read as anything
    (1, "a Send made a Terminate", set_byte(3, lambda byte: byte & 0xF0 | TERMINATE), "on another queue"),
]


def judge_the_judge(file, which, folder):
    stream = os.path.join(folder, "stream")
    number = one_stream(file, stream)
    checks.that(not Judge(stream).problems, "a stream by itself is good")
    for size in range(4, 13, 4) if which == 1 else ():  # TCP cuts where a window ends
        packets = Packets.read(stream)
        record = packets.records[number - 1]
        packets.records[number - 1:number] = [cut(record, 0, size), cut(record, size)]
        packets.write(os.path.join(folder, "cut"))
        found = Judge(os.path.join(folder, "cut")).problems
        checks.that(not found, "a segment cut after %d bytes is as good: %s" % (size, found))
    for run, what, spoil, expected in SPOILT:
        if run != which:
            continue
        packets = Packets.read(stream)
        spoil(packets, number)
        packets.write(os.path.join(folder, "spoilt"))
        found = Judge(os.path.join(folder, "spoilt")).problems
        checks.that(any(expected in problem for problem in found), "%s spoilt: '%s' expected: %s" % (what, expected, found))
        print("%s spoilt: %s" % (what, found[0] if found else "not found"))


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: tshark.py DIRECTORY-OF-THE-PROGRAMS RUN")
    which = int(sys.argv[2])
    need("ip", "dumpcap", "taskset", "tshark")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "run")
        os.chmod(folder, 0o755)
        captured_run(sys.argv[1], RUNS[which], file)
        judge_run(RUNS[which], file)
        judge_the_judge(file, which, folder)
    checks.finish()


if __name__ == "__main__":
    main()
