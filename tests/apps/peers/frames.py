# SPDX-License-Identifier: MIT
"""A stream of frames, each with its length, its number and its digest; one of the two ends is killed while they travel.

    frames.py serve PORT
    frames.py connect PORT NUMBER up|down COUNT

The server forks for each connection. The client tells its number, who sends (up: the client) and how many frames it may be, and both print
"NUMBER at PID" once some frames have passed. At the end each prints "NUMBER end HOW FRAMES": HOW is "whole" after the last frame and the end of the
stream, "eof" where the stream ends earlier, "reset" for ECONNRESET or EPIPE, "WRONG" for a frame that is not what it should be.
"""
import hashlib
import os
import random
import signal
import socket
import struct
import sys

import pattern

FIRST = struct.Struct("!IBI")
HEAD = struct.Struct("!II32s")
MARK = 5  # frames that have passed when it is told
ENDLESS = 0xFFFFFFFF


class Ended(Exception):
    """The stream ended, in that way."""


def contents_of(number, frame):
    rng = random.Random(number * 100003 + frame)
    return pattern.data("%d.%d" % (number, frame), int(2 ** rng.uniform(0, 17)))


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # one write: processes share the file


def receive(connection, size):
    """All of it; None at the end of the stream."""
    received = b""
    while len(received) < size:
        some = connection.recv(size - len(received))
        if not some:
            if received:
                raise Ended("eof")
            return None
        received += some
    return received


def send_frames(connection, number, count):
    frame = 0
    while frame < count:
        contents = contents_of(number, frame)
        connection.sendall(HEAD.pack(len(contents), frame, hashlib.sha256(contents).digest()) + contents)
        frame += 1
        if frame == MARK:
            tell(number, "at", os.getpid())
        yield frame
    connection.sendall(HEAD.pack(0, ENDLESS, bytes(32)))
    connection.shutdown(socket.SHUT_WR)
    if connection.recv(1):
        raise Ended("WRONG")


def receive_frames(connection, number):
    frame = 0
    while True:
        head = receive(connection, HEAD.size)
        if head is None:
            raise Ended("eof")
        size, sent_frame, digest = HEAD.unpack(head)
        if sent_frame == ENDLESS:
            if receive(connection, 1) is not None:
                raise Ended("WRONG")
            return
        contents = receive(connection, size)
        if contents is None:
            raise Ended("eof")
        if sent_frame != frame or hashlib.sha256(contents).digest() != digest or contents != contents_of(number, frame):
            raise Ended("WRONG")
        frame += 1
        if frame == MARK:
            tell(number, "at", os.getpid())
        yield frame


def transfer(connection, number, sends, count, first=b""):
    passed, how = 0, "whole"
    try:
        connection.sendall(first)
        for passed in send_frames(connection, number, count) if sends else receive_frames(connection, number):
            pass
    except Ended as end:
        how = str(end)
    except (BrokenPipeError, ConnectionResetError):
        how = "reset"
    tell(number, "end", how, passed)


def serve(port):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                number, up, count = FIRST.unpack(receive(connection, FIRST.size))
                transfer(connection, number, not up, count)
                sys.exit(0)
            connection.close()


def connect(port, number, up, count):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        transfer(connection, number, up, count, FIRST.pack(number, up, count))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        connect(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "up", int(sys.argv[5]))
