# SPDX-License-Identifier: MIT
"""Connects, has one exchange, and closes, many times.

    churn.py PORT COUNT

It prints "warm" after the first tenth, and goes on after a line of its standard input; it prints "over" in the end, and ends after a further line.
"""
import socket
import sys


def once(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"x")
        if connection.recv(1) != b"x":
            sys.exit("WRONG: another byte came back")


def several(port, count, word):
    for _ in range(count):
        once(port)
    print(word, flush=True)
    sys.stdin.readline()


def main(port, count):
    several(port, count // 10, "warm")
    several(port, count - count // 10, "over")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
