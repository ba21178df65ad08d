# SPDX-License-Identifier: MIT
"""An echo server of one thread, which waits by epoll; it needs little memory of its own for a connection.

    select_echo.py PORT
"""
import selectors
import signal
import socket
import sys


def serve(port):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                    continue
                some = key.fileobj.recv(4096)
                if some:
                    key.fileobj.sendall(some)
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
