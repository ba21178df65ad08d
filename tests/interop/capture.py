# SPDX-License-Identifier: MIT
"""Captures what a host's interface carries, wholly: the first and the last packet are our own, and are there."""
import os
import select
import signal
import struct
import subprocess
import sys
import time

from hosts import SCALE

LIMIT_S = 30 * SCALE


class Capture:
    """dumpcap on an interface of a host, for the TCP ports [first, last]. `file` is whole after stop()."""

    def __init__(self, host, interface, ports, file):
        self.host, self.file, self.port = host, file, ports[1]
        open(file, "w").close()
        os.chmod(file, 0o666)  # dumpcap gives up root before it writes
        self.process = host.start("dumpcap", "-q", "-P", "-i", interface, "-s", "0", "-B", "64", "-w", file,
                                  "-f", "tcp portrange %d-%d" % ports, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=False)
        self.said = b""
        self.await_words(b"File:")
        self.first = self.mark()

    def await_words(self, words):
        end = time.monotonic() + LIMIT_S
        while words not in self.said:
            ready, _, _ = select.select([self.process.stderr], [], [], max(0, end - time.monotonic()))
            more = os.read(self.process.stderr.fileno(), 4096) if ready else b""
            if not more:
                self.process.kill()
                sys.exit("FAILED: dumpcap: " + self.said.decode())
            self.said += more

    def mark(self):
        """A connection that is refused: its SYN says, in the capture, that all before it is there."""
        script = ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
                  "s.connect_ex(('127.0.0.1', %d))" % self.port)
        port = int(self.host.run(sys.executable, "-c", script))
        mark = struct.pack("!HH", port, self.port)
        end = time.monotonic() + LIMIT_S
        while True:
            with open(self.file, "rb") as file:
                file.seek(max(0, os.path.getsize(self.file) - 65536))
                if mark in file.read():
                    return mark
            if time.monotonic() > end:
                sys.exit("FAILED: the capture does not see what is sent")
            select.select([], [], [], 0.05)

    def stop(self):
        self.mark()
        self.process.send_signal(signal.SIGINT)
        self.await_words(b"dropped on interface")
        self.process.wait(LIMIT_S)
        counts = self.said.decode().rsplit(": ", 1)[1].split()[0]  # received/dropped
        if not counts.endswith("/0"):
            sys.exit("FAILED: the capture has lost packets: " + self.said.decode())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


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
        tcp = 14 + (40 if frame[12:14] == b"\x86\xdd" else 20)
        return frame, tcp + (frame[tcp + 12] >> 4) * 4

    def write(self, file):
        with open(file, "wb") as stream:
            stream.write(self.header + b"".join(head + frame for head, frame in self.records))

    def without_reuse(self):
        """The same packets in as many parts as the most used pair of ends has had connections: Wireshark takes the
        second connection of a pair for more of the first."""
        parts, seen = [], {}  # ends: the number of their connection, and the sequence number of its SYN
        for head, frame in self.records:
            ip, tcp = (22, 54) if frame[12:14] == b"\x86\xdd" else (26, 34)
            address = (tcp - ip) // 2
            ends = frozenset([(bytes(frame[ip:ip + address]), bytes(frame[tcp:tcp + 2])),
                              (bytes(frame[ip + address:tcp]), bytes(frame[tcp + 2:tcp + 4]))])
            number, first = seen.get(ends, (0, None))
            if frame[tcp + 13] & 0x12 == 0x02 and frame[tcp + 4:tcp + 8] != first:
                number, first = number + (first is not None), bytes(frame[tcp + 4:tcp + 8])
                seen[ends] = number, first
            while len(parts) <= number:
                parts.append(Packets(self.header, []))
            parts[number].records.append([head, frame])
        return parts
