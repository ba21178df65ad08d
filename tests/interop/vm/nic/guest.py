# SPDX-License-Identifier: MIT
"""A guest: a small Linux in QEMU (no KVM needed), with functions of cards that other processes serve over vfio-user.

It runs from memory: busybox, the modules of vfio, programs of a build with the libraries that they want, and a script.
Its console is its only way to the outside. QEMU's exit status says nothing (a kernel's panic ends it well, too): what
counts is what the guest says, its last word above all.
"""
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

from packages import qemu_command

HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))  # of every time limit
SLOWNESS = 3  # of an emulated processor
LAST_WORD = "guest is done: "
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)

# How QEMU and the kernel are called, and where the programs' libraries and tools for them are.
MACHINES = {
    "amd64": {
        "options": ["-machine", "q35,memory-backend=ram", "-serial", "stdio"],
        "append": "console=ttyS0 mitigations=off nokaslr no_timer_check tsc=reliable",
        "libraries": ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"],
        "strip": "strip",
    },
    "s390x": {
        "options": ["-machine", "s390-ccw-virtio,memory-backend=ram", "-chardev", "stdio,id=console",
                    "-device", "sclpconsole,chardev=console"],
        "append": "console=ttysclp0",
        "libraries": ["/usr/s390x-linux-gnu/lib", "/usr/lib/s390x-linux-gnu"],
        "strip": "s390x-linux-gnu-strip",
    },
}
IOMMUS = {
    "intel": (["-device", "intel-iommu,caching-mode=on,intremap=on"], "intel_iommu=on"),
    "none": ([], ""),
}


# What QEMU says of each page of a device's memory that the guest maps for a card: the card reaches it by messages to QEMU.
BY_MESSAGES = b"iommu map to non memory area"


class Failed(Exception):
    """What went wrong with a guest, in words."""


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def needed(program, folders):
    """The paths of a program's interpreter and of all libraries that it loads."""
    found, left = {}, [program]
    while left:
        text = run("readelf", "-ld", left.pop())
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", text) + re.findall(r"interpreter: .*/([^]]+)\]", text)
        own = [folder for path in re.findall(r"\(RUNPATH\).*\[(.*)\]", text) for folder in path.split(":")]
        for name in set(names) - set(found):
            paths = [os.path.join(folder, name) for folder in own + folders]
            found[name] = next((path for path in paths if os.path.exists(path)), None)
            if found[name] is None:
                raise Failed("%s wants %s, which is not here" % (program, name))
            left.append(found[name])
        interpreter = re.findall(r"interpreter: (.*)\]", text)
        if interpreter:
            found[os.path.basename(interpreter[0])] = found.get(os.path.basename(interpreter[0])) or interpreter[0]
    return found


class Archive:
    """An initramfs: cpio's format "newc", not compressed."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.folders, self.number = {""}, 0

    def entry(self, name, mode, content=b""):
        self.number += 1
        name = name.encode() + b"\0"
        fields = [self.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self.file.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))

    def folder(self, name):
        if name not in self.folders:
            self.folder(os.path.dirname(name))
            self.folders.add(name)
            self.entry(name, stat.S_IFDIR | 0o755)

    def add(self, name, content):
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFREG | 0o755, content)

    def close(self):
        self.entry("TRAILER!!!", 0)
        self.file.close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def interpreter(program):
    return re.search(r"interpreter: (.*)\]", run("readelf", "-l", program)).group(1)


def initramfs(cache, machine, kernel, programs, libraries, script, path, more):
    """Everything that the guest has; `libraries` that programs load by themselves, and `more`: name there, and file here. Debugging information stays
    here: the guest reads all of it into its memory."""
    archive = Archive(path)
    files = dict(libraries)
    for each in list(programs) + list(libraries.values()):
        for name, library in needed(each, MACHINES[machine]["libraries"]).items():
            files["lib/" + name] = library
    for program in programs:
        files["bin/" + os.path.basename(program)] = program
        files[interpreter(program).lstrip("/")] = files["lib/" + os.path.basename(interpreter(program))]
    for name, file in files.items():
        run(MACHINES[machine]["strip"], "-o", path + ".stripped", os.path.realpath(file))
        archive.add(name, read(path + ".stripped"))
    archive.add("bin/busybox", read(os.path.join(cache, kernel, "busybox")))
    for module in sorted(glob.glob(os.path.join(cache, kernel, "modules", "*.ko"))):
        archive.add("modules/" + os.path.basename(module), read(module))
    for folder in ("proc", "sys", "dev", "tmp"):
        archive.folder(folder)
    for name, file in more.items():
        archive.add(name, read(file))
    archive.add("init", read(os.path.join(HERE, "init.sh")))
    settings = "export VIPL_TEST_TIMEOUT_SCALE=%d\n" % (SLOWNESS * SCALE)
    archive.add("script", (settings + script).encode())
    archive.close()


def functions(machine, sockets):
    """A PCI function for each socket: 0000:00:05.0 and so on, or 0001:00:00.0 and so on on s390x."""
    words = []
    for number, path in enumerate(sockets):
        device = {"driver": "vfio-user-pci", "id": "card%d" % number, "socket": {"type": "unix", "path": path}}
        if machine == "s390x":
            words += ["-device", "zpci,uid=%d,fid=%d,target=card%d" % (number + 1, number, number)]
        else:
            device["addr"] = "%x" % (5 + number)
        words += ["-device", json.dumps(device)]  # the socket is an object: only this form takes one
    return words


def dies_with_us():
    """In the child: a test that is killed leaves no guest behind."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    """Ports that no process has now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Guest:
    """Boots at once; end() at the latest ends it. `kernel`: another folder than the machine's. `devices`: options of QEMU. `files`, `libraries`:
    for the guest."""

    def __init__(self, cache, work, name, script, programs, machine="amd64", sockets=(), iommu="none", memory="512M", devices=(),
                 files=None, libraries=None, kernel=None):
        self.name = name
        self.lines, self.ended = [], False
        self.changed = threading.Condition()
        how = MACHINES[machine]
        image = os.path.join(work, name + ".initramfs")
        kernel = kernel or machine
        initramfs(cache, machine, kernel, programs, libraries or {}, script, image, files or {})
        unit, words = IOMMUS[iommu]
        command = qemu_command(os.path.join(cache, "qemu"), machine) + how["options"] + [
            # With a second processor to come, even if it never does, QEMU keeps the barriers that atomic instructions of
            # x86 are; the card is another processor, of which it knows nothing.
            "-accel", "tcg", "-cpu", "max", "-smp", "1,maxcpus=2", "-nodefaults", "-no-reboot", "-nographic",
            "-m", memory, "-object", "memory-backend-memfd,id=ram,share=on,size=" + memory,
            "-kernel", os.path.join(cache, kernel, "kernel"), "-initrd", image,
            "-append", "panic=-1 quiet random.trust_cpu=on %s %s" % (how["append"], words)]
        self.started = time.monotonic()
        self.process = subprocess.Popen(command + unit + functions(machine, sockets) + list(devices), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=dies_with_us)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if BY_MESSAGES in line:
                continue
            with self.changed:
                self.lines.append((time.monotonic() - self.started, line.decode(errors="replace").strip("\r\n")))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def ram(self):
        """The guest's memory, a file without a name, which is there as long as it is open: also when the guest has ended."""
        for path in glob.glob("/proc/%d/fd/*" % self.process.pid):
            if "memory-backend-memfd" in os.readlink(path):
                return open(path, "rb")
        raise Failed(self.name + " has no memory")

    def said(self, beginning):
        """What follows this beginning of a line, for each line that has it."""
        return [line[len(beginning):] for _, line in self.lines if line.startswith(beginning)]

    def wait_for(self, beginning, seconds):
        """Until the guest says a line that begins so; the rest of the line."""
        with self.changed:
            self.changed.wait_for(lambda: self.ended or self.said(beginning), seconds * SCALE)
            found = self.said(beginning)
        if not found:
            raise Failed("%s %s without \"%s\"" % (self.name, "ended" if self.ended else "went on for %d s" % (seconds * SCALE), beginning))
        return found[0]

    def tell(self, line):
        """A line for what reads the guest's console."""
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def finish(self, seconds):
        """Until it has said its last word, and is off."""
        word = self.wait_for(LAST_WORD, seconds)
        try:
            self.process.wait(30 * SCALE)
        except subprocess.TimeoutExpired as error:
            raise Failed(self.name + " does not switch itself off") from error
        if word != "0":
            raise Failed("%s: %s of its steps failed" % (self.name, word))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def console(self):
        return "".join("%s %6.1f| %s\n" % (self.name, when, line) for when, line in self.lines)
