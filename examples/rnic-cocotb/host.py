#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has the card behind a socket copy memory of this program, and looks whether it did.

usage: host.py SOCKET    where the bench listens
"""
import socket
import struct
import sys

HEADER = struct.Struct("<IHHQIHBBQQ")  # length, kind, function, time, id, width, space, status, address, value
HELLO, READ, WRITE, RESET, DONE, DMA_READ, DMA_DATA, DMA_WRITE, INTERRUPT, BYE = range(1, 11)
ID, CTRL, STATUS, COPY_FROM, COPY_TO, COPY_WORDS = 0x000, 0x040, 0x044, 0x1000, 0x1008, 0x1010
AT, WORDS = 0x10000, 100  # where the memory is for the card; how much of it is copied

stream = socket.socket(socket.AF_UNIX)
stream.connect(sys.argv[1])
file = stream.makefile("rb")
memory = bytearray(bytes(n * 7 % 251 for n in range(8 * WORDS)) + bytes(8 * WORDS))


def send(kind, data=b"", id=0, width=0, address=0, value=0):
    stream.sendall(HEADER.pack(HEADER.size + len(data), kind, 0, 0, id, width, 0, 0, address, value) + data)


def wait_for(wanted):
    """Serves the card's accesses to memory until this message comes; returns its value."""
    while True:
        length, kind, _, _, id, _, _, status, address, value = HEADER.unpack(file.read(HEADER.size))
        data = file.read(length - HEADER.size)
        if kind == DMA_READ:
            send(DMA_DATA, memory[address - AT:address - AT + value], id=id)
        elif kind == DMA_WRITE:
            memory[address - AT:address - AT + len(data)] = data
        elif kind == wanted and status == 0:
            return value
        else:
            sys.exit("the card has sent kind %d, status %d" % (kind, status))


def write(register, value):
    send(WRITE, width=4, address=register, value=value)


def read(register):
    send(READ, id=1, width=4, address=register)
    return wait_for(DONE)


send(HELLO, id=0x53554256, value=1)
wait_for(HELLO)
print("ID", read(ID).to_bytes(4, "little").decode())
write(CTRL, 1)
print("STATUS 0x%x" % read(STATUS))
for register, value in (COPY_FROM, AT), (COPY_TO, AT + 8 * WORDS), (COPY_WORDS, WORDS):
    write(register, value)
print("interrupt of vector", wait_for(INTERRUPT))
print("words left to copy:", read(COPY_WORDS))
if memory[:8 * WORDS] != memory[8 * WORDS:]:
    sys.exit("the copy is wrong")
print("the copy is right")
send(RESET, id=2)
wait_for(DONE)
print("STATUS after a reset 0x%x" % read(STATUS))
send(BYE)
