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
