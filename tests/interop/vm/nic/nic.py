#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The RDMA card in guests: QEMU attaches functions of an adapter, Linux enumerates them, and the library uses them there.

    nic.py CASE FOLDER-OF-PACKAGES FOLDER-OF-PROGRAMS [FOLDER-OF-PROGRAMS-FOR-S390X]

KEEP=1 shows the guests' consoles in any case.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from guest import SCALE, Failed, Guest, dies_with_us, free_ports
from p2p import p2p
from p2pdma import KERNEL, p2pdma

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ["vipl-conformance", "vipl-info", "vipl-ping", "vipl-perf", "vipl-rnic-bus"]
# Some cases of the conformance suite between processes: each of them opens two functions, which the kernel resets, a tenth of a
# second each time.
QUICK_PROCS = ["[procs][VipRecvWait][early]", "[procs][VipDisconnect][early]"]
# What a card does not notice that nothing tells: that a process has gone.
DEATHS = "".join('~"*%s*"' % name for name in ("that dies", "that died", "asked and died", "nothing torn down", "may call exit()"))


def numbers():
    """The constants of the card's description, from which its header and data sheet are made."""
    path = os.path.join(HERE, "../../../../src/rnic/registers.json")
    with open(path, encoding="utf-8") as file:
        return {name: int(value, 0) for name, value, _ in json.load(file)["constants"]}


CARD = numbers()


def expect(what, found, meant):
    if found != meant:
        raise Failed("%s: %s, not %s" % (what, found, meant))


class Adapter:
    """A card as a process, with a socket for each of its functions."""

    def __init__(self, program, folder, functions, *options):
        os.mkdir(folder)
        self.sockets = [os.path.join(folder, "fn-%d.sock" % number) for number in range(functions)]
        self.process = subprocess.Popen([program, "--functions", str(functions), "--dir", folder, *options],
                                        preexec_fn=dies_with_us)
        end = time.monotonic() + 20 * SCALE
        while not all(os.path.exists(path) for path in self.sockets):
            if self.has_ended(0.01) or time.monotonic() > end:
                raise Failed("the adapter does not serve")

    def has_ended(self, seconds):
        """Whether it ends within a moment."""
        try:
            self.process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def end(self):
        """It is still there, and ends when it is told so."""
        code = self.process.poll()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30 * SCALE)
        return code


class Case:
    """What a case has: places, and all that it started."""

    def __init__(self, cache, work, folders):
        self.cache, self.work, self.folders = cache, work, folders
        self.guests, self.adapters = [], []

    def adapter(self, name, functions, *options):
        program = os.environ.get("VIPL_RNICD") or os.path.join(self.folders["amd64"], "../libexec/vipl-rnicd")
        self.adapters.append(Adapter(program, os.path.join(self.work, name), functions, *options))
        return self.adapters[-1]

    def guest(self, name, script, machine="amd64", programs=PROGRAMS, **more):
        paths = [os.path.join(self.folders[machine], program) for program in programs]
        self.guests.append(Guest(self.cache, self.work, name, script, paths, machine=machine, **more))
        return self.guests[-1]

    def end(self):
        for guest in self.guests:
            guest.end()
        return [adapter.end() for adapter in self.adapters]


# --- what Linux says of a function ---------------------------------------------------------------------------------------


def capabilities(config):
    """Number of a capability: where it is in configuration space."""
    found, at = {}, config[0x34]
    while at != 0 and len(found) < 48:
        found[config[at]] = at
        at = config[at + 1]
    return found


def word(config, at, size=2):
    return int.from_bytes(config[at:at + size], "little")


# BAR4 of an adapter's function: the least power of two that holds 16 MiB of DRAM and 16 KiB of SRAM.
DEVICE_MEMORY_BYTES = 32 << 20


def check_config(address, config):
    """Configuration space against the data sheet: no INTx pin, PCI Express with function-level reset, MSI-X in BAR0."""
    found = capabilities(config)
    expect(address + " capabilities", sorted(found), [0x10, 0x11])
    express, msix = found[0x10], found[0x11]
    expect(address + " function-level reset", word(config, express + 4, 4) >> 28 & 1, 1)
    expect(address + " pin", config[0x3D], 0)
    expect(address + " vectors", (word(config, msix + 2) & 0x7FF) + 1, CARD["VECTORS"])
    expect(address + " vector table", word(config, msix + 4, 4), CARD["MSIX_TABLE"])
    expect(address + " pending bits", word(config, msix + 8, 4), CARD["MSIX_PBA"])


def check_card(guest, address, grouped):
    """What show_card said. Each function is a group of its own behind an IOMMU, and of none without."""
    said = {name: guest.said("%s %s: " % (address, name))
            for name in ("vendor", "device", "class", "region 0", "region 2", "region 4", "config", "group")}
    meant = {"vendor": ["0x%04x" % CARD["PCI_VENDOR"]], "device": ["0x%04x" % CARD["PCI_DEVICE"]],
             "class": ["0x%06x" % CARD["PCI_CLASS"]], "region 0": [str(CARD["BAR0_BYTES"])],
             "region 2": [str(CARD["BAR2_BYTES"])], "region 4": [str(DEVICE_MEMORY_BYTES)]}
    for name, value in meant.items():
        expect("%s %s" % (address, name), said[name], value)
    expect(address + " groups", len(said["group"]), 1 if grouped else 0)
    check_config(address, bytes.fromhex(said["config"][0]))
    return said["group"]


def check_interrupts(guest):
    """Events and completions came by vectors of the function: the kernel counted them."""
    counts = {}
    for line in guest.said("interrupts: "):
        fields = re.match(r"\s*\d+:((?:\s+\d+)+).*vfio-msix\[(\d+)\]", line)
        vector, count = int(fields.group(2)), sum(int(count) for count in fields.group(1).split())
        counts[vector] = max(count, counts.get(vector, 0))
    expect("vectors that the library asked for, of %s" % counts, 0 in counts and len(counts) > 1, True)
    expect("vectors that fired, of %s" % counts, counts[0] > 0 and sum(counts.values()) > counts[0], True)


def check_steps(guest, *names):
    for name in names:
        expect("%s: %s" % (guest.name, name), guest.said("step %s: " % name), ["0"])


# --- cases ---------------------------------------------------------------------------------------------------------------

LOOK = """
for card in $(cards); do
    show_card $card
done
"""
# Behind an IOMMU the card's memory is mapped page by page, and large ones are fewer: an adapter has 65,535 at most.
VFIO = LOOK + """
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo always >/sys/kernel/mm/transparent_hugepage/enabled
for card in $(cards); do
    step vfio.$card use_vfio $card
done
"""
PHYSICAL = LOOK + "keep_memory_in_place\n"


# No resets by the kernel where every case opens the function and closes it again, but no process is killed.
NO_RESETS = """
for card in $(cards); do
    echo >"/sys/bus/pci/devices/$card/reset_method"
done
"""
RESETS = NO_RESETS.replace("echo >", "echo flr >")


# What a guest has no memory for: everything that is registered is locked.
LARGE = '~"*more than 4 GiB*"'


def device_memory(address):
    """That the memory of the card is mapped, and is what VipxAllocDevice() gives. A card of a guest's is one process's: no child opens it."""
    device = "rnic:pci:" + address
    return "step memory sh -c \"vipl-info --device %s | grep 'device memory  *mapped' && " \
           "vipl-conformance --device %s --level posix --mode inproc '[VipxAllocDevice]~[sharing]~*with handles of the parent*'\"" % (device, device)


def conformance(addresses, quick, without, mapped):
    """In one process on the first function, and between two, with a function each."""
    first, second = ["rnic:pci:" + address for address in addresses]
    program = "vipl-conformance --device %s" % first
    procs = ",".join(case + without for case in (QUICK_PROCS if quick else ["[procs]" + LARGE]))
    return "\n".join([
        "step bus vipl-rnic-bus pci:" + addresses[0],
        "step info vipl-info --device " + first,
        "step blocking with_interrupts %s %s --mode inproc '[VipRecvWait][early]'" % (addresses[0], program),
        NO_RESETS,
        "step inproc %s --mode inproc %s" % (program, "--level early" if quick else "'%s'" % LARGE),
        RESETS,
        "step procs %s --peer-device %s --mode procs '%s'" % (program, second, procs),
        device_memory(addresses[0]) if mapped else "", ""])


X86 = ["0000:00:05.0", "0000:00:06.0"]
S390X = ["0001:00:00.0", "0002:00:00.0"]
STEPS = ["bus", "info", "blocking", "inproc", "procs"]


def alone(case, name, addresses, quick, setup=VFIO, without="", mapped=True, **more):
    """A guest that has two functions, and runs everything on them. `mapped`: whether its machine can map BARs."""
    adapter = case.adapter("card", 2)
    guest = case.guest(name, setup + conformance(addresses, quick, without, mapped), sockets=adapter.sockets,
                       memory="512M" if quick else "2G", **more)
    guest.finish(150 if quick else 1500)
    check_steps(guest, *STEPS, *(["memory"] if mapped else []))
    return guest


def iommu(case, quick=True):
    """VFIO behind Intel's IOMMU: mapped doorbells, interrupts, a translation for each page."""
    guest = alone(case, "iommu", X86, quick, iommu="intel")
    groups = [check_card(guest, address, True) for address in X86]
    expect("IOMMU groups", len(set(map(tuple, groups))), 2)
    check_steps(guest, *["vfio." + address for address in X86])
    check_interrupts(guest)


def physical(case, quick=True):
    """No IOMMU: files of sysfs, physical addresses, no interrupts."""
    guest = alone(case, "physical", X86, quick, setup=PHYSICAL, without=DEATHS)
    for address in X86:
        check_card(guest, address, False)


def s390x(case, quick=True):
    """Big-endian, and BARs that cannot be mapped."""
    guest = alone(case, "s390x", S390X, quick, mapped=False, machine="s390x")
    for address in S390X:
        check_card(guest, address, True)
    check_steps(guest, *["vfio." + address for address in S390X])
    check_interrupts(guest)


SERVER = VFIO + """
echo "address: $(vipl-info --device rnic:pci:0000:00:05.0 | awk '$1 == "address" { print $2 }')"
vipl-ping --server --quiet --device rnic:pci:0000:00:05.0 &
ping=$!
vipl-perf --server --device rnic:pci:0000:00:06.0 &
perf=$!
read word </dev/console
step ping kill $ping
step perf kill $perf
wait
"""
CLIENT = VFIO + """
read address </dev/console
until_served() {
    for i in $(seq 100); do
        "$@" && return 0
        usleep 100000
    done
    return 1
}
ping="vipl-ping --client=$address --device rnic:pci:0000:00:05.0 --quiet"
step served until_served $ping --count 1
for size in 1 4096 1M; do
    step ping.$size $ping --count 25 --size $size
done
step perf until_served vipl-perf --client=$address --device rnic:pci:0000:00:06.0 --test lat,bw --op all --size 4K..16K \
    --iters 100 --warmup 1 --verify
"""


def pair(case):
    """Two guests, with a card each and a wire between the cards, that exchange data and look at every byte."""
    own, other = free_ports(2)
    guests = []
    for name, script, here, there in (("server", SERVER, own, other), ("client", CLIENT, other, own)):
        adapter = case.adapter("card-" + name, 2, "--wire", "udp:127.0.0.1:%d,peer=127.0.0.1:%d" % (here, there))
        guests.append(case.guest(name, script, sockets=adapter.sockets, iommu="intel"))
    server, client = guests
    client.tell(server.wait_for("address: ", 60))
    client.finish(120)
    check_steps(client, "served", "ping.1", "ping.4096", "ping.1M", "perf")
    server.tell("done")
    server.finish(60)
    check_steps(server, "ping", "perf")


def everything(quick):
    return lambda case: quick(case, quick=False)


CASES = {"iommu": iommu, "physical": physical, "s390x": s390x, "pair": pair, "p2p": p2p, "p2pdma": p2pdma}
KERNELS = {"p2pdma": KERNEL}  # other ones than the machine's
CASES.update({"%s.all" % name: everything(CASES[name]) for name in ("iommu", "physical", "s390x")})


# --- the program ---------------------------------------------------------------------------------------------------------


def need(*folders):
    missing = [folder for folder in folders if not os.path.isdir(folder)]
    if missing:
        print("not here: %s; ./dev vm makes them" % " ".join(missing))
        sys.exit(77)


def run(case, name):
    """Whether all is well."""
    good = False
    try:
        CASES[name](case)
        good = True
    except Failed as error:
        print("FAILED: %s" % error)
    finally:
        codes = case.end()
        if not good or os.environ.get("KEEP"):
            print("".join(guest.console() for guest in case.guests))
    if any(code is not None for code in codes):
        print("FAILED: an adapter ended by itself: %s" % codes)
        return False
    return good


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    cache, folders = sys.argv[2], dict(zip(("amd64", "s390x"), sys.argv[3:]))
    machine = "s390x" if sys.argv[1].startswith("s390x") else "amd64"
    kernel = KERNELS.get(sys.argv[1], machine)
    need(os.path.join(cache, "qemu"), os.path.join(cache, kernel), folders.get(machine, machine))
    with tempfile.TemporaryDirectory(prefix="vipl-nic.") as work:
        sys.exit(0 if run(Case(cache, work, folders), sys.argv[1]) else 1)


if __name__ == "__main__":
    main()
