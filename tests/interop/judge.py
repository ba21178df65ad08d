# SPDX-License-Identifier: MIT
"""What tshark says about a capture: a judge of every frame that shares no line of code with the library.

Wireshark's dissectors read MPA, DDP and RDMAP; this adds up what they found. Whatever a stream carries must be
accounted for: a start frame each way, then FPDUs to the last byte, each with a good CRC where the start frames
ask for one, of a known operation, on the right queue, its message numbers without a gap.
"""
import collections
import os
import re
import subprocess

from packets import Packets

# What Sends look like by chance: RPC-over-RDMA, SMB Direct. Segments may be captured in another order than sent.
OPTIONS = ["--disable-heuristic", "rpcrdma_iwarp", "--disable-heuristic", "smb_direct_iwarp",
           "-o", "tcp.try_heuristic_first:TRUE",  # a port of ours may be known as another protocol's
           "-o", "gui.max_tree_depth:5000",  # many FPDUs in one segment
           "-o", "tcp.reassemble_out_of_order:TRUE", "-o", "tcp.relative_sequence_numbers:TRUE"]
FIELDS = ["frame.number", "tcp.stream", "tcp.srcport", "tcp.seq", "tcp.len", "tcp.flags.reset",
          "iwarp_mpa.req", "iwarp_mpa.rep", "iwarp_mpa.crc_flag", "iwarp_mpa.marker_flag", "iwarp_mpa.rev",
          "iwarp_mpa.pdlength", "iwarp_mpa.ulpdulength", "iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag",
          "iwarp_ddp.dv", "iwarp_ddp.rsvd", "iwarp_rdma.version", "iwarp_rdma.rsv", "iwarp_rdma.opcode",
          "iwarp_ddp.qn", "iwarp_ddp.msn", "iwarp_ddp.mo", "_ws.malformed", "_ws.expert.message"]

WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_SOLICITED, TERMINATE, IMMEDIATE = 0, 1, 2, 3, 5, 7, 8
NAMES = {WRITE: "RDMA Write", READ_REQUEST: "Read Request", READ_RESPONSE: "Read Response", SEND: "Send",
         SEND_SOLICITED: "Send, solicited", TERMINATE: "Terminate", IMMEDIATE: "Immediate Data"}
QUEUES = {SEND: 0, SEND_SOLICITED: 0, IMMEDIATE: 0, READ_REQUEST: 1, TERMINATE: 2}
UNTAGGED_HEADER = 18

# TCP's own affairs. A segment "not captured" may come later, captured by another CPU: the bytes are counted in the end.
TCP_NOTES = re.compile(r"^(Connection (establish|finish|reset)|This frame |D-SACK|Duplicate ACK|TCP (window|keep|Zero)|"
                       r"ZeroWindow|Window|Previous segment|A new tcp session|The acknowledgment number field|TCP SYN|"
                       r"ACKed (lost|segment that wasn))", re.I)


def tshark(file, *arguments, program=("tshark",)):
    """tshark's lines about a capture, one at a time."""
    command = list(program) + ["-r", file] + OPTIONS + list(arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield from process.stdout
        complaint = process.stderr.read()
    if process.returncode != 0:
        raise RuntimeError("tshark: " + complaint)


class Side:
    """One direction of a connection."""

    def __init__(self):
        self.sent = 0      # bytes
        self.read = 0      # those of them that are start frames and FPDUs
        self.started = False
        self.crc = False
        self.fpdus = 0
        self.queues = {}   # number: (next message, offset in it)
        self.terminated = False


class Judge:
    def __init__(self, file):
        """`file` is in the old pcap format; parts of it are put beside it."""
        self.counts = collections.Counter()
        self.opcodes = collections.Counter()
        self.problems = []
        self.parts = []  # files, each by itself for Wireshark
        self.sides = collections.defaultdict(dict)  # stream: {port: Side}
        self.reset = set()
        for number, part in enumerate(Packets.read(file).without_reuse()):
            self.part = "%s.part%d" % (file, number)
            self.parts.append(self.part)
            part.with_whole_starts().write(self.part)
            self.read_part()
        self.check_streams()

    def read_part(self):
        fields = [word for field in FIELDS for word in ("-e", field)]
        for line in tshark(self.part, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|", *fields):
            line = re.sub(r"\bTrue\b", "1", re.sub(r"\bFalse\b", "0", line.rstrip("\n")))  # of versions from 4.2 on
            packet = dict(zip(FIELDS, line.split("\t")))
            packet["tcp.stream"] += " of " + os.path.basename(self.part)
            self.packet(packet)
        self.check_sums(self.part)

    def problem(self, where, what):
        self.problems.append("%s: %s" % (where, what))

    def packet(self, packet):
        where = "frame %s, stream %s" % (packet["frame.number"], packet["tcp.stream"])
        self.counts["packets"] += 1
        side = self.sides[packet["tcp.stream"]].setdefault(packet["tcp.srcport"], Side())
        if packet["tcp.flags.reset"] == "1":
            self.reset.add(packet["tcp.stream"])
        if int(packet["tcp.len"]) > 0:
            side.sent = max(side.sent, int(packet["tcp.seq"]) + int(packet["tcp.len"]) - 1)
        if packet["_ws.malformed"]:
            self.problem(where, "malformed")
        for note in filter(None, packet["_ws.expert.message"].split("|")):
            if not TCP_NOTES.match(note):
                self.problem(where, note)
        if packet["iwarp_mpa.req"] or packet["iwarp_mpa.rep"]:
            self.start_frame(where, side, packet)
        if packet["iwarp_mpa.ulpdulength"]:
            self.fpdus(where, side, packet)

    def start_frame(self, where, side, packet):
        self.counts["MPA requests" if packet["iwarp_mpa.req"] else "MPA replies"] += 1
        if side.started or side.read > 0:
            self.problem(where, "a start frame that is not at the start")
        if packet["iwarp_mpa.marker_flag"] != "0" or packet["iwarp_mpa.rev"] != "2":
            self.problem(where, "MPA revision %s, markers %s" % (packet["iwarp_mpa.rev"],
                                                                  packet["iwarp_mpa.marker_flag"]))
        side.started = True
        side.crc = packet["iwarp_mpa.crc_flag"] == "1"
        side.read += 20 + int(packet["iwarp_mpa.pdlength"])

    def fpdus(self, where, side, packet):
        lists = {name: [int(value, 0) for value in packet[name].split("|") if value] for name in FIELDS
                 if name.startswith(("iwarp_ddp", "iwarp_rdma", "iwarp_mpa.ulp"))}
        lengths, opcodes = lists["iwarp_mpa.ulpdulength"], lists["iwarp_rdma.opcode"]
        if not side.started:
            self.problem(where, "an FPDU before the start frame")
        side.read += sum((2 + length + 3) // 4 * 4 + 4 for length in lengths)
        side.fpdus += len(lengths)
        self.counts["FPDUs"] += len(lengths)
        per_fpdu = ["iwarp_ddp.tagged_flag", "iwarp_ddp.last_flag", "iwarp_ddp.dv", "iwarp_rdma.version",
                    "iwarp_rdma.opcode"]
        if any(len(lists[name]) != len(lengths) for name in per_fpdu):
            self.problem(where, "%d FPDUs, and not a DDP and an RDMAP header in each" % len(lengths))
            return
        if set(lists["iwarp_ddp.dv"] + lists["iwarp_rdma.version"]) != {1} or \
                any(lists["iwarp_ddp.rsvd"] + lists["iwarp_rdma.rsv"]):
            self.problem(where, "a version other than 1, or reserved bits")
        untagged = iter(zip(lists["iwarp_ddp.qn"], lists["iwarp_ddp.msn"], lists["iwarp_ddp.mo"]))
        for length, opcode, tagged, last in zip(lengths, opcodes, lists["iwarp_ddp.tagged_flag"],
                                                lists["iwarp_ddp.last_flag"]):
            self.opcodes[opcode] += 1
            if opcode not in NAMES or tagged != (opcode in (WRITE, READ_RESPONSE)):
                self.problem(where, "operation %d, %stagged" % (opcode, "" if tagged else "un"))
                return
            if side.terminated:
                self.problem(where, "%s after a Terminate" % NAMES[opcode])
            side.terminated = side.terminated or opcode == TERMINATE
            if not tagged:
                self.untagged(where, side, opcode, length - UNTAGGED_HEADER, last, next(untagged, None))

    def untagged(self, where, side, opcode, length, last, header):
        if header is None or header[0] != QUEUES[opcode]:
            self.problem(where, "%s on another queue" % NAMES[opcode])
            return
        queue, msn, mo = header
        expected = side.queues.get(queue, (1, 0))
        if (msn, mo) != expected:
            self.problem(where, "queue %d: message %d offset %d, not %d and %d" % ((queue, msn, mo) + expected))
        side.queues[queue] = (msn + 1, 0) if last else (msn, mo + length)

    def check_sums(self, file):
        """tshark tells a good CRC from a bad one in words only."""
        frame = "?"
        for line in tshark(file, "-V", "-O", "iwarp_mpa", "-Y", "iwarp_mpa"):
            if line.startswith("Frame "):
                frame = line.split(":")[0].split()[1]
            elif "(Good CRC32)" in line:
                self.counts["good CRCs"] += 1
            elif "Bad CRC32" in line:
                self.problem("frame " + frame, line.strip())

    def check_streams(self):
        with_crc = 0
        for stream, sides in self.sides.items():
            if not any(side.sent for side in sides.values()):
                self.counts["connections refused or given up"] += 1
                continue
            self.counts["connections"] += 1
            if any(side.crc for side in sides.values()):
                with_crc += sum(side.fpdus for side in sides.values())
            for port, side in sides.items():
                self.check_end("stream %s, from port %s" % (stream, port), stream, side)
        if self.counts["good CRCs"] < with_crc:
            self.problem("all streams", "%d FPDUs are to have a CRC, %d have" % (with_crc, self.counts["good CRCs"]))

    def check_end(self, where, stream, side):
        """Who has been told of an error, by a Terminate or a reset, ends in the middle of what it was sending."""
        left = side.sent - side.read
        told = stream in self.reset or any(other.terminated for other in self.sides[stream].values()
                                           if other is not side)
        if 0 < left < 65536 + 8 and side.started and told:
            self.counts["streams cut in an FPDU, after an error"] += 1
        elif left != 0:
            self.problem(where, "%d of %d bytes are no MPA" % (left, side.sent))

    def report(self):
        lines = ["%8d %s" % (count, name) for name, count in sorted(self.counts.items())]
        lines += ["%8d %s" % (count, NAMES.get(opcode, "operation %d" % opcode))
                  for opcode, count in sorted(self.opcodes.items())]
        return "\n".join(lines + self.problems[:20] +
                         (["... and %d more" % (len(self.problems) - 20)] if len(self.problems) > 20 else []))
