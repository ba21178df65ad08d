#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the registers of an RDMA card over vfio-user: the first thing that a new driver does.

usage: rnic_registers.py SOCKET    the socket of a vipl-rnicd; registers.py is found by PYTHONPATH
"""
import socket
import struct
import sys

import registers

VERSION, REGION_READ = 1, 9  # commands of vfio-user
BAR0 = 0


class Function:
    """A function of the card, as long as the socket is open."""

    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.connect(path)
        self.command(VERSION, struct.pack("<HH", 0, 0) + b"{}\0")

    def take(self, count):
        data = b""
        while len(data) < count:
            part = self.stream.recv(count - len(data))
            if not part:
                sys.exit("the adapter has hung up")
            data += part
        return data

    def command(self, number, payload):
        """Sends a command and returns the payload of its reply."""
        self.stream.sendall(struct.pack("<HHIII", 1, number, 16 + len(payload), 0, 0) + payload)
        _, _, size, flags, error = struct.unpack("<HHIII", self.take(16))
        if flags & 0x20:
            sys.exit("command %d failed: errno %d" % (number, error))
        return self.take(size - 16)

    def read(self, offset):
        """A register of BAR0: 32 bits, little-endian on every host."""
        reply = self.command(REGION_READ, struct.pack("<QII", offset, BAR0, 4))
        return struct.unpack_from("<I", reply, 16)[0]


card = Function(sys.argv[1])
if card.read(registers.RNIC_REG_ID) != registers.RNIC_ID_VALUE:
    sys.exit("this is not the card")
for name, offset in vars(registers).items():
    if name.startswith("RNIC_REG_"):
        print("0x%03X %-18s 0x%08X" % (offset, name[len("RNIC_REG_"):], card.read(offset)))
