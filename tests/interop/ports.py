# SPDX-License-Identifier: MIT
"""A host that has no local port left for one more connection to where a program waits.

usage: ports.py DIRECTORY-OF-THE-PROGRAMS

The other ports of the discriminator refuse, as nobody listens there: that says nothing about the one that could not be asked.
"""
import errno
import os
import socket
import struct
import subprocess
import sys

from hosts import SCALE, Host, need

PORTS = 4  # that the host gives to connections


def ping(host, folder, *arguments):
    return host.start(os.path.join(folder, "vipl-ping"), "--device", "tcp:127.0.0.1", *arguments,
                      env={"VIPL_LOG": "reason", "VIPL_TCP_HANDSHAKE_MS": str(600000)}, stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, universal_newlines=True)


def ask(host, folder, ms):
    client = ping(host, folder, "--client", "127.0.0.1", "--count", "1", "--timeout", str(ms))
    out, _ = client.communicate(timeout=60 * SCALE)
    print(out)
    return client.returncode, out


def listening_port(host):
    """Of the one that listens here."""
    for line in host.run("cat", "/proc/net/tcp").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            return int(fields[1].split(":")[1], 16)
    sys.exit("FAILED: nobody listens")


def occupy(host, port):
    """All the ports that there are for connections to that one."""
    host.enter()
    held = []
    try:
        while len(held) <= PORTS:
            one = socket.socket()
            held.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its port is free once it is closed
            one.connect(("127.0.0.1", port))
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return held
    sys.exit("FAILED: %d connections from %d ports" % (len(held), PORTS))


def main():
    need("ip")
    folder = sys.argv[1]
    host = Host()
    host.run("sh", "-c", "echo 40000 %d >/proc/sys/net/ipv4/ip_local_port_range" % (40000 + PORTS - 1))
    server = ping(host, folder, "--server", "--quiet")
    try:
        code, out = ask(host, folder, 20000 * SCALE)  # it waits by then
        assert code == 0, "without ports in use: " + out
        held = occupy(host, listening_port(host))
        code, out = ask(host, folder, 500)
        assert code == 1 and "VIP_ERROR_RESOURCE" in out, "not VIP_ERROR_RESOURCE"
        assert os.strerror(errno.EADDRNOTAVAIL) in out, "without its reason"
        for one in held:
            one.close()
        server.kill()
        server.wait()
        code, out = ask(host, folder, 500)
        assert code == 1 and "VIP_NO_MATCH" in out, "nobody waits, and that is not what it says"
    finally:
        server.kill()


if __name__ == "__main__":
    main()
