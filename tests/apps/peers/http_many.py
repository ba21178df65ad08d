# SPDX-License-Identifier: MIT
"""Many connections to one server, all open at a time.

    http_many.py PORT CONNECTIONS SIZE ROUNDS

The file /SIZE of the server holds pattern.data(SIZE, SIZE). In each round all connections ask for it, and then all replies are read.
"""
import selectors
import socket
import sys

import pattern


class Reply:
    """What one connection has received of a reply."""

    def __init__(self, connection):
        self.connection, self.received = connection, b""

    def take(self, body):
        """Whether the reply is whole. Raises ValueError if it is not what it should be."""
        some = self.connection.recv(1 << 16)
        if not some:
            raise ValueError("the end of the stream within a reply")
        self.received += some
        head, blank, rest = self.received.partition(b"\r\n\r\n")
        if not blank or len(rest) < len(body):
            return False
        if not head.startswith(b"HTTP/1.1 200 ") or rest != body:
            raise ValueError("WRONG contents: %r" % head)
        return True


def ask_all(connections, body, request):
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ, Reply(connection))
        missing = len(connections)
        while missing:
            for key, _ in selector.select():
                if key.data.take(body):
                    selector.unregister(key.fileobj)
                    missing -= 1


def main(port, count, size, rounds):
    body = pattern.data(size, size)
    request = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % size
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for _ in range(rounds):
        ask_all(connections, body, request)
        connections.reverse()
    for connection in connections:
        connection.close()
    print("%d connections right" % count)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
