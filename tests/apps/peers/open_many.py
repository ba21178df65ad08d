# SPDX-License-Identifier: MIT
"""Opens connections, has one exchange on each, and then waits on all of them, by epoll, until its standard input ends.

    open_many.py PORT COUNT REQUEST

REQUEST is in hexadecimal digits; something must come back. It prints "open" when all are.
"""
import selectors
import socket
import sys


def main(port, count, request):
    with selectors.DefaultSelector() as selector:
        connections = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(request)
            connections.append(connection)
            selector.register(connection, selectors.EVENT_READ)
        for connection in connections:
            if not connection.recv(1 << 16):
                sys.exit("the end of the stream in place of a reply")
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("open", flush=True)
        while not any(key.fileobj is sys.stdin for key, _ in selector.select()):
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]))
