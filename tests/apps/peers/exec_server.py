# SPDX-License-Identifier: MIT
"""A server in the manner of inetd: it accepts, forks, and executes cat with the connection as its standard input and output.

    exec_server.py PORT
"""
import os
import signal
import socket
import sys


def serve(port):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave nothing behind
    with socket.create_server(("127.0.0.1", port), backlog=128) as listener:
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                os.dup2(connection.fileno(), 0)
                os.dup2(connection.fileno(), 1)
                os.execvp("cat", ["cat"])
            connection.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
