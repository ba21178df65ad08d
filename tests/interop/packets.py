# SPDX-License-Identifier: MIT
"""The packets of a capture: read, changed, written, and laid out as Wireshark's MPA needs them."""
import struct

SYN, ACK, FIN = 0x02, 0x10, 0x01
START_FRAME = 20  # bytes of an MPA request or reply, without its private data
WHOLE_START = 8   # bytes of an FPDU: a segment that holds fewer of them is not MPA's to Wireshark, which is lost then


class Stream:
    """One direction of a connection, as far as it was captured in order."""

    def __init__(self, sequence):
        self.sequence = sequence
        self.data = bytearray()  # of the start frame or the FPDU that is being sent
        self.started = False
        self.last = None         # index of the record with the latest segment

    def size(self):
        if not self.started:
            return START_FRAME + struct.unpack("!H", self.data[18:20])[0] if len(self.data) >= START_FRAME else None
        return (2 + struct.unpack("!H", self.data[:2])[0] + 3) // 4 * 4 + 4 if len(self.data) >= 2 else None

    def add(self, payload):
        self.sequence = (self.sequence + len(payload)) % 2 ** 32
        self.data += payload
        while self.size() is not None and len(self.data) >= self.size():
            del self.data[:self.size()]
            self.started = True

    def short_end(self):
        """Bytes of a beginning FPDU that are too few for Wireshark."""
        return len(self.data) if self.started and len(self.data) < WHOLE_START else 0


class Packets:
    """A file in the old pcap format, its packets changeable; numbers are frame numbers, from 1."""

    def __init__(self, header, records):
        self.header, self.records = header, records

    @classmethod
    def read(cls, file):
        with open(file, "rb") as stream:
            data = stream.read()
        at, records = 24, []
        while at < len(data):
            size = struct.unpack("<I", data[at + 8:at + 12])[0]
            records.append([data[at:at + 16], bytearray(data[at + 16:at + 16 + size])])
            at += 16 + size
        return cls(data[:24], records)

    def payload(self, number):
        """Where a frame's TCP payload begins: behind Ethernet's header, IP's and TCP's."""
        frame = self.records[number - 1][1]
        return frame, payload_of(frame)

    def write(self, file):
        with open(file, "wb") as stream:
            stream.write(self.header + b"".join(head + frame for head, frame in self.records))

    def without_reuse(self):
        """The same packets in as many parts as the most used pair of ends has had connections: Wireshark takes the
        second connection of a pair for more of the first."""
        parts, seen = [], {}  # ends: the number of their connection, and the sequence number of its SYN
        for head, frame in self.records:
            ends = frozenset(ends_of(frame))
            number, first = seen.get(ends, (0, None))
            if flags_of(frame) & (SYN | ACK) == SYN and sequence_of(frame) != first:
                number, first = number + (first is not None), sequence_of(frame)
                seen[ends] = number, first
            while len(parts) <= number:
                parts.append(Packets(self.header, []))
            parts[number].records.append([head, frame])
        return parts

    def with_whole_starts(self):
        """The same bytes, and no segment ends within the first bytes of an FPDU whose next ones were captured: those
        few become a segment with the ones that follow. TCP may cut anywhere."""
        records, streams = [], {}
        for record in self.records:
            frame = record[1]
            stream = streams.get(ends_of(frame))
            if flags_of(frame) & SYN:
                streams[ends_of(frame)] = Stream((sequence_of(frame) + 1) % 2 ** 32)
            elif stream and stream.sequence == sequence_of(frame) and len(frame) > payload_of(frame):
                taken = WHOLE_START - stream.short_end()
                if 0 < stream.short_end() and taken < len(frame) - payload_of(frame):
                    records.append(self.moved(records, stream, record, taken))
                    record = cut(record, taken)
                stream.add(frame[payload_of(frame):])
                stream.last = len(records)
            records.append(record)
        return Packets(self.header, records)

    @staticmethod
    def moved(records, stream, record, taken):
        """A segment of the short end of `stream`, which its latest segment loses, and of the beginning of `record`."""
        latest = records[stream.last]
        keep = len(latest[1]) - payload_of(latest[1]) - stream.short_end()
        end = cut(latest, keep)
        records[stream.last] = cut(latest, 0, keep)
        beginning = record[1][payload_of(record[1]):][:taken]
        return resized([end[0], end[1] + beginning])


def tcp_of(frame):
    return 14 + (40 if frame[12:14] == b"\x86\xdd" else 20)


def payload_of(frame):
    return tcp_of(frame) + (frame[tcp_of(frame) + 12] >> 4) * 4


def flags_of(frame):
    return frame[tcp_of(frame) + 13]


def sequence_of(frame):
    return struct.unpack_from("!I", frame, tcp_of(frame) + 4)[0]


def ends_of(frame):
    """The sender's address and port, and the receiver's."""
    tcp = tcp_of(frame)
    size = 16 if frame[12:14] == b"\x86\xdd" else 4
    return ((bytes(frame[tcp - 2 * size:tcp - size]), bytes(frame[tcp:tcp + 2])),
            (bytes(frame[tcp - size:tcp]), bytes(frame[tcp + 2:tcp + 4])))


def cut(record, first, end=None):
    """A record with the bytes [first, end) of another's payload; the connection ends with the last of them."""
    head, frame = record
    payload = payload_of(frame)
    piece = frame[:payload] + frame[payload:][first:end]
    struct.pack_into("!I", piece, tcp_of(frame) + 4, (sequence_of(frame) + first) % 2 ** 32)
    if end is not None:
        piece[tcp_of(frame) + 13] &= ~FIN & 0xFF
    return resized([head, piece])


def resized(record):
    """A record whose lengths, the capture's and IP's, are its frame's."""
    head, frame = bytearray(record[0]), record[1]
    struct.pack_into("<II", head, 8, len(frame), len(frame))
    if frame[12:14] == b"\x86\xdd":
        struct.pack_into("!H", frame, 18, len(frame) - 54)
    else:
        struct.pack_into("!H", frame, 16, len(frame) - 14)
    return [bytes(head), frame]
