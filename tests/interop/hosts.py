# SPDX-License-Identifier: MIT
"""Hosts for the tests of this folder: network namespaces that live as long as this process.

They have no names and nothing is left of them, however the test ends. A program is put into one before it
starts, or enters it by its path. Needs root, and says so.
"""
import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import sys

CLONE_NEWNET = 0x40000000
SCALE = int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))  # of every time limit
libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, "%s: %s" % (function.__name__, os.strerror(error)))


def need(*tools):
    """Ends the test where it cannot run: as a failure in the continuous integration, else as skipped."""
    missing = [tool for tool in tools if shutil.which(tool, path=path()) is None]
    if os.name != "posix" or not sys.platform.startswith("linux"):
        reason = "network namespaces are Linux's"
    elif os.geteuid() != 0:
        reason = "making network namespaces needs root"
    elif missing:
        reason = "not installed: " + " ".join(missing)
    else:
        return
    print("cannot run: " + reason)
    sys.exit(1 if os.environ.get("CI") == "true" else 77)


def path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class Host:
    """A network namespace of its own, its loopback interface up."""

    def __init__(self):
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        call(libc.unshare, CLONE_NEWNET)
        self.space = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        call(libc.setns, home, CLONE_NEWNET)
        os.close(home)
        self.path = "/proc/%d/fd/%d" % (os.getpid(), self.space)
        self.run("ip", "link", "set", "lo", "up")

    def enter(self):
        """In a child, before it starts its program; or for good."""
        call(libc.setns, self.space, CLONE_NEWNET)

    @contextlib.contextmanager
    def entered(self):
        """This thread is in it for a while."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.enter()
        try:
            yield
        finally:
            call(libc.setns, home, CLONE_NEWNET)
            os.close(home)

    def start(self, *command, env=None, **more):
        full = dict(os.environ, PATH=path(), **(env or {}))
        return subprocess.Popen(command, env=full, preexec_fn=self.enter, **more)

    def run(self, *command, text=None):
        """Runs a command that must succeed; returns what it prints."""
        process = self.start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             universal_newlines=True)
        out, _ = process.communicate(text, timeout=30 * SCALE)
        if process.returncode != 0:
            sys.exit("FAILED: %s: %s" % (" ".join(command), out))
        return out

    def packets(self, interface):
        """Packets that came in by an interface."""
        for line in self.run("cat", "/proc/net/dev").splitlines():
            name, _, counters = line.partition(":")
            if name.strip() == interface:
                return int(counters.split()[1])
        return 0

    def setting(self, name, value):
        """Sets what /proc/sys/net has; kernels differ in what that is."""
        self.run("sh", "-c", "echo %s >/proc/sys/net/%s || true" % (value, name))

    def address(self, interface, number, more=()):
        for address in (V4 % number + "/24", V6 % number + "/64"):
            nodad = ["nodad"] if ":" in address else []
            self.run("ip", "address", "add", address, "dev", interface, *nodad)
        self.run("ip", "link", "set", interface, "up", *more)


V4, V6 = "10.66.77.%d", "fd66:77::%d"


def cable(one, two, mtu=1500):
    """Joins two hosts by a pair of interfaces, v0 in each; their addresses end with 1 and 2."""
    one.run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", two.path)
    for number, host in ((1, one), (2, two)):
        host.setting("ipv6/conf/v0/keep_addr_on_down", 1)
        host.setting("ipv6/conf/v0/accept_dad", 0)
        host.address("v0", number, ["mtu", str(mtu)])


def tunnel(host, name):
    """An interface whose packets are this process': a descriptor that gives and takes one at a time."""
    with host.entered():
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # TUNSETIFF: TUN, no header
    return device
