# SPDX-License-Identifier: MIT
"""Which addresses the device tcp opens: those that an interface of this host has, and no others.

usage: addresses.py DIRECTORY-OF-THE-PROGRAMS

Whatever the system lets a program bind to: with ip_nonlocal_bind that is any address.
"""
import os
import subprocess
import sys

from hosts import SCALE, Host, V4, V6, cable, need

LINK_LOCAL = "fe80::66:77:1"
OWN = ["", "v0", "lo", "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", V4 % 1, V6 % 1, LINK_LOCAL + "%v0",
       "10.66.78.1"]  # of an interface that is down: the address counts
OTHERS = ["192.0.2.7", V4 % 2, V4 % 255, V6 % 2, "255.255.255.255", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "127.0.0.0",
          "127.255.255.255", "::ffff:127.0.0.1", "v1", LINK_LOCAL, LINK_LOCAL + "%lo"]


def opens(host, folder, address):
    device = "tcp:" + address if address else "tcp"
    process = host.start(os.path.join(folder, "vipl-ping"), "--pair", "--count", "1", "--quiet", "--device", device,
                         "--timeout", str(5000 * SCALE), env={"VIPL_LOG": "reason"}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, universal_newlines=True)
    out, _ = process.communicate(timeout=60 * SCALE)
    reason = 'tcp: "%s" is no interface or address of this host' % address
    if process.returncode == 0 and reason not in out:
        return True
    if process.returncode == 1 and reason in out:
        return False
    sys.exit("FAILED: %s: exit code %s, and without its reason:\n%s" % (device, process.returncode, out))


def main():
    need("ip")
    folder = sys.argv[1]
    host, other = Host(), Host()
    cable(host, other)
    host.run("ip", "address", "add", LINK_LOCAL + "/64", "dev", "v0", "nodad")
    host.run("ip", "link", "add", "down0", "type", "veth", "peer", "name", "down1")
    host.run("ip", "address", "add", "10.66.78.1/24", "dev", "down0")
    wrong = []
    for nonlocal_bind in (0, 1):
        host.setting("ipv4/ip_nonlocal_bind", nonlocal_bind)
        host.setting("ipv6/ip_nonlocal_bind", nonlocal_bind)
        for addresses, expected in ((OWN, True), (OTHERS, False)):
            for address in addresses:
                if opens(host, folder, address) != expected:
                    wrong.append("nonlocal_bind %d: tcp:%s %s" % (nonlocal_bind, address,
                                                                 "is refused" if expected else "opens"))
    sys.exit("FAILED:\n" + "\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
