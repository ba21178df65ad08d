# SPDX-License-Identifier: MIT
"""Programs that know nothing of VIPL, for test_hosts.py.

hosts_peer.py server ADDRESS PORT [background]   echoes whatever comes; "background": as a daemon does, in a child, after listen()
hosts_peer.py client ADDRESS PORT                does what the lines of its input say, and prints how each has ended
"""
import os
import random
import socket
import sys
import threading

LIMIT_S = 60


def echo(connection):
    with connection:
        try:
            while True:
                data = connection.recv(100000)
                if not data:
                    return
                connection.sendall(data)
        except OSError:
            pass


def serve(address, port, background):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family, dualstack_ipv6=address == "::")
    if background and os.fork() != 0:
        os._exit(0)
    print("ready", os.getpid(), flush=True)
    while True:
        connection = listener.accept()[0]
        threading.Thread(target=echo, args=(connection,), daemon=True).start()


def echoed(connection, count):
    """Sends bytes that are random, while it reads, and compares what comes back."""
    sent = random.Random(count).randbytes(count)
    writer = threading.Thread(target=connection.sendall, args=(sent,), daemon=True)
    writer.start()
    got = bytearray()
    while len(got) < count:
        data = connection.recv(100000)
        if not data:
            return "the end after %d bytes" % len(got)
        got += data
    writer.join()
    return "right" if bytes(got) == sent else "WRONG bytes"


def command(connections, place, word, number):
    if word == "open":
        connections.append(socket.create_connection(place, timeout=LIMIT_S))
        return "open"
    if word == "close":
        connections.pop().close()
        return "closed"
    if word == "echo":
        return echoed(connections[-1], number)
    if word == "send":
        connections[-1].sendall(bytes(number))
        return "sent"
    if word == "end":  # what a read finds that waits for the peer's end
        while connections[-1].recv(100000):
            pass
        return "the end"
    sys.exit("what is " + word)


def ask(address, port):
    connections = []
    for line in sys.stdin:
        word, number = line.split()
        try:
            print(command(connections, (address, port), word, int(number)), flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)


if sys.argv[1] == "server":
    serve(sys.argv[2], int(sys.argv[3]), len(sys.argv) > 4)
else:
    ask(sys.argv[2], int(sys.argv[3]))
