#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gets what the guests are made of from Debian, into a folder, and installs nothing: QEMU from trixie-backports, which
attaches functions that another process serves (10.1 or later), and kernels and busybox for x86-64 and s390x.

    packages.py FOLDER [MACHINE...]     the kernels of all machines, if none is named

apt is used with lists and a state of its own; it and the distribution's keyring come with every Debian 12. What is in
the folder already is not fetched again:

    FOLDER/qemu              the root of QEMU and of the libraries that it wants
    FOLDER/<machine>         amd64, s390x; amd64-p2pdma, whose kernel gives out the memory of devices: kernel, busybox, modules/<number>-<name>.ko in the order in which they are to be loaded
"""
import glob
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
QEMU = ["qemu-system-x86", "qemu-system-s390x", "zstd"]
QEMU_SUITES = ["trixie", "trixie-backports"]
# What is in a kernel's package by name. A mirror may have lists of one machine that do not fit the release's signature
# for days: then the next one is asked. Before 6.7 there was no VFIO for s390x.
KERNELS = {"amd64": "linux-image-cloud-amd64", "s390x": "linux-image-s390x", "amd64-p2pdma": "linux-image-cloud-amd64"}
KERNEL_SUITES = {"trixie": ["trixie"], "bookworm-backports": ["bookworm", "bookworm-backports"]}
P2PDMA_SUITES = {"trixie-backports": ["trixie", "trixie-backports"]}  # the kernels of the others have it switched off
# The modules that a guest loads, those first that others need.
MODULES = ["irqbypass", "iommufd", "vfio", "vfio_virqfd", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"]
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          **more).stdout


class Apt:
    """apt with a state of its own, for one kind of machine. Raises CalledProcessError where a list is not to be had."""

    def __init__(self, folder, machine, suites):
        self.folder = folder
        self.archives = os.path.join(folder, "cache", "archives")
        etc = os.path.join(folder, "etc")
        for each in ("lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d", "etc/sources.list.d"):
            os.makedirs(os.path.join(folder, each))
        open(os.path.join(folder, "status"), "w", encoding="ascii").close()
        with open(os.path.join(etc, "sources.list"), "w", encoding="ascii") as file:
            for suite in suites:
                file.write("deb [signed-by=%s] %s %s main\n" % (KEYRING, site(), suite))
        settings = {"Dir::State": folder, "Dir::State::status": folder + "/status", "Dir::State::lists": folder + "/lists",
                    "Dir::Cache": folder + "/cache", "Dir::Etc": etc, "Acquire::Languages": "none", "Acquire::Retries": "3",
                    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false", "APT::Install-Recommends": "false",
                    "APT::Sandbox::User": "root", "APT::Architecture": machine, "APT::Architectures": machine}
        self.options = ["-qq"] + [word for name, value in settings.items() for word in ("-o", "%s=%s" % (name, value))]
        run("apt-get", *self.options, "update")

    def install(self, suite, packages):
        """The archives of these and of all that they depend on."""
        run("apt-get", *self.options, "-y", "-t", suite, "--download-only", "install", *packages)
        return self.take()

    def download(self, *packages):
        run("apt-get", *self.options, "download", *packages, cwd=self.archives)
        return self.take()

    def take(self):
        """What has been fetched; the next fetch begins with an empty folder."""
        taken = tempfile.mkdtemp(dir=self.folder)
        return [shutil.move(path, taken) for path in glob.glob(self.archives + "/*.deb")]

    def depends(self, package, *beginnings):
        """The packages that it depends on whose names begin so."""
        lines = run("apt-cache", *self.options, "depends", package).splitlines()
        return [line.split()[-1] for line in lines if " Depends: " in line and line.split()[-1].startswith(beginnings)]

    def kernel(self, package):
        """The packages that one without content stands for; of kernels from 7 on the image and the modules are apart."""
        image = self.depends(package, "linux-image-")[0]
        return [image] + self.depends(image, "linux-binary-", "linux-modules-")


def site():
    """Where this system has Debian from."""
    lines = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Component: main", "Release: bookworm").splitlines()
    return lines[0] if lines else "http://deb.debian.org/debian"


def unpack(package, folder):
    archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
    left_out = ["./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/lib/modules/*/kernel/fs",
                "./usr/lib/modules/*/kernel/net"]
    os.makedirs(folder, exist_ok=True)
    run("tar", "-xf", "-", "-C", folder, *["--exclude=" + each for each in left_out], stdin=archive.stdout)
    if archive.wait() != 0:
        sys.exit("not unpacked: " + package)


def qemu_command(root, machine):
    """Runs a program of the unpacked QEMU with its own libraries; words to put before its arguments."""
    library = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    name = "qemu-system-" + {"amd64": "x86_64"}.get(machine, machine)
    return [library + "/ld-linux-x86-64.so.2", "--library-path", library, "--argv0", name, root + "/usr/bin/" + name,
            "-L", root + "/usr/share/qemu", "-L", root + "/usr/share/seabios"]


def elf_image(qemu, image):
    """The ELF file inside a compressed kernel, which boots in half the time; None if there is no such thing."""
    library = os.path.join(qemu, "usr/lib/x86_64-linux-gnu")
    zstd = [library + "/ld-linux-x86-64.so.2", "--library-path", library, qemu + "/usr/bin/zstd", "-dcq"]
    for match in re.finditer(re.escape(ZSTD_MAGIC), image):
        elf = subprocess.run(zstd, input=image[match.start():], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if elf.stdout[:4] == b"\x7fELF":
            return elf.stdout
    return None


def find(root, pattern):
    found = glob.glob(os.path.join(root, pattern), recursive=True)
    return found[0] if found else None


def take_modules(root, target):
    """Those that this kernel has as files, uncompressed, numbered; others are part of it, or of another version."""
    os.makedirs(target)
    for number, name in enumerate(MODULES):
        path = find(root, "**/lib/modules/*/kernel/**/%s.ko*" % name)
        if path is None:
            continue
        opened = lzma.open(path) if path.endswith(".xz") else open(path, "rb")
        with opened as module, open("%s/%02d-%s.ko" % (target, number, name), "wb") as file:
            shutil.copyfileobj(module, file)
    if not os.path.exists("%s/%02d-vfio-pci.ko" % (target, MODULES.index("vfio-pci"))):
        sys.exit("the kernel has no vfio-pci")


def kernel_packages(work, machine):
    """Kernel and busybox, from the first suite that has them."""
    architecture = machine.split("-")[0]
    for suite, suites in (KERNEL_SUITES if machine == architecture else P2PDMA_SUITES).items():
        try:
            apt = Apt(os.path.join(work, "apt-%s-%s" % (machine, suite)), architecture, suites)
            return apt.download(*apt.kernel(KERNELS[machine] + "/" + suite), "busybox-static")
        except subprocess.CalledProcessError as error:
            print("guests: no kernel for %s from %s: %s" % (machine, suite, error.stderr))
    sys.exit("no suite has a kernel for " + machine)


def make_kernel(work, folder, machine, target):
    root = target + ".root"
    for package in kernel_packages(work, machine):
        unpack(package, root)
    take_modules(root, os.path.join(target, "modules"))
    shutil.copy(find(root, "usr/bin/busybox") or find(root, "bin/busybox"), target)
    with open(find(root, "boot/vmlinuz-*") or find(root, "usr/lib/modules/*/vmlinuz"), "rb") as file:
        image = file.read()
    if machine.startswith("amd64"):
        image = elf_image(os.path.join(folder, "qemu"), image) or image
    with open(os.path.join(target, "kernel"), "wb") as file:
        file.write(image)


def make_qemu(work, target):
    for package in Apt(os.path.join(work, "apt-qemu"), "amd64", QEMU_SUITES).install(QEMU_SUITES[-1], QEMU):
        unpack(package, target)


def get(folder, machines):
    """A part is there when it has its name: it is made under another one."""
    os.makedirs(folder, exist_ok=True)
    for part in ["qemu"] + machines:
        if os.path.isdir(os.path.join(folder, part)):
            continue
        with tempfile.TemporaryDirectory(dir=folder) as work:
            target = os.path.join(work, part)
            if part == "qemu":
                make_qemu(work, target)
            else:
                make_kernel(work, folder, part, target)
            os.rename(target, os.path.join(folder, part))
        print("guests: %s is there" % part)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(KERNELS):
        sys.exit(__doc__)
    get(os.path.abspath(sys.argv[1]), sys.argv[2:] or list(KERNELS))
