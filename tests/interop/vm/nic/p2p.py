# SPDX-License-Identifier: MIT
"""Recorded packets from an NVMe controller to a card, and from a card to another NVMe controller, through the memory buffers of
the controllers: none of the packets is in the guest's main memory, which is looked through afterwards.

The card reaches the buffers by messages to QEMU, which waits for one function while the other's message comes: so there the two
are functions of one card. Through main memory they are two cards with a wire. Where the plug-in for DPDK is built, two e1000e of
QEMU's on a wire do the same as the cards."""
import glob
import json
import mmap
import os
import random
import struct
import subprocess
import sys

from guest import SCALE, Failed, free_ports

COUNT = 300
DISK_BYTES = 64 << 20
LBA, BLOCKS = 2048, 32768  # of the capture
MARK = random.Random(7).getrandbits(128).to_bytes(16, "little")  # in each packet, with its number behind
MARK_AT, HEAD_BYTES = 20, 52

# A recording, a label before it, goes onto a disk; a capture comes back. As docs/rnic/traffic.md says it.
PUT = r"""{ stat --printf='VIPL recording 1\nbytes %s\nwritten %.9Y\n' "$1" | tr -d . | dd bs=4096 conv=sync; cat "$1"; } |
    dd of="$2" bs=1M iflag=fullblock conv=notrunc,fsync"""
GET = r"""bytes=$(dd if="$1" bs=512 skip="$2" count=8 | awk '$1 == "bytes" { print $2 }' | head -n 1)
tail -c +$((($2 + 8) * 512 + 1)) "$1" | head -c "$bytes" >"$3" """

SCRIPT = """
[ ! -e /sys/kernel/mm/transparent_hugepage/enabled ] || echo always >/sys/kernel/mm/transparent_hugepage/enabled
for function in 0000:00:05.0 0000:00:06.0 0000:00:07.0 0000:00:08.0 0000:00:09.0; do
    step vfio.$function use_vfio $function
done
from="--store nvme:0000:00:07.0 --index /in.index --port %(port)s0000:00:05.0"
to="--store nvme:0000:00:08.0,lba=%(lba)d,blocks=%(blocks)d --port %(port)s0000:00:06.0"
"""

# What is refused, and what a card reaches.
WITH_CARDS = """
step no.place refused "needs lba= and blocks=" vipl-cap --port rnic:pci:0000:00:06.0 --store nvme:0000:00:08.0
step no.kernel refused "data of files" vipl-gen --store file:/in.index --port rnic:pci:0000:00:05.0 --memory cmb:0000:00:07.0
step no.label refused "is no label" vipl-gen --store nvme:0000:00:08.0 --port rnic:pci:0000:00:05.0
step explain vipl-gen $from --memory %(gen)s --bytes 4M --explain
for memory in cmb:0000:00:08.0 bar:0000:00:09.0:2 rnic; do
    step other.$memory vipl-gen $from --memory $memory --bytes 1M --chunk 256K --explain
done
"""

MOVE = """
vipl-cap $to --memory %(cap)s --bytes 8M --count %(count)d --duration %(seconds)d --json 2>/tmp/cap &
cap=$!
until grep -q receiving /tmp/cap; do
    kill -0 $cap || break
    usleep 100000
done
step gen vipl-gen $from --bytes 4M --memory %(gen)s --pps 1K --json
wait $cap
step cap [ $? -eq 0 ]
cat /tmp/cap
"""


def packets():
    """Frames of all sizes, with random bytes."""
    rng = random.Random(5)
    head = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x12\x34" + bytes(6) + MARK
    frames = []
    for number in range(COUNT):
        size = rng.choice([60, 64, 128, 256, 512, 1024, 1400]) - len(head) - 4
        frames.append(head + struct.pack("<I", number) + bytes(rng.getrandbits(8) for _ in range(size)))
    return frames


def write_recording(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1700000000, number * 1000, len(frame), len(frame)) + frame)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(command), done.stderr))
    return done.stdout


def shell(script, *words):
    run("sh", "-ec", script, "sh", *map(str, words))


def make_disk(path):
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)


def check_capture(path, frames):
    """tshark's opinion of each packet."""
    said = json.loads(run("tshark", "-r", path, "-T", "json", "-x", "--no-duplicate-keys"))
    found = [packet["_source"]["layers"]["frame_raw"][0] for packet in said]
    if found != [frame.hex() for frame in frames]:
        same = sum(one == frame.hex() for one, frame in zip(found, frames))
        raise Failed("the capture has %d packets, of which %d are those of %d that were sent" % (len(found), same, len(frames)))


def find_in_memory(ram, frames):
    """The numbers of the packets of which the first bytes from the mark on are in the guest's memory."""
    found = set()
    with ram, mmap.mmap(ram.fileno(), 0, prot=mmap.PROT_READ) as memory:
        at = memory.find(MARK)
        while at >= 0:
            found.add(memory[at:at + HEAD_BYTES - MARK_AT])
            at = memory.find(MARK, at + 1)
    return {number for number, frame in enumerate(frames) if frame[MARK_AT:HEAD_BYTES] in found}


def nvme(name, path, slot, *more):
    return ["-drive", "file=%s,if=none,id=%s,format=raw,cache=writeback" % (path, name),
            "-device", ",".join(["nvme,drive=%s,serial=%s,cmb_size_mb=16,addr=%x" % (name, name, slot), *more])]


def two_cards(case):
    ports = free_ports(2)
    return [case.adapter("card-%d" % port, 1, "--raw", "0", "--wire", "udp:127.0.0.1:%d,peer=127.0.0.1:%d" % (port, other)).sockets[0]
            for port, other in (ports, ports[::-1])]


def one_card(case):
    """Frames for its own address go from function to function."""
    return case.adapter("card", 2, "--raw", "0,1", "--mac", "02:00:00:00:00:02").sockets


class Cards:
    """Functions of cards as ports."""
    port, script, devices, libraries = "rnic:pci:", SCRIPT + WITH_CARDS + MOVE, [], {}

    def __init__(self, sockets):
        self.sockets = sockets


class Adapters:
    """Network adapters of QEMU's, with a wire, by drivers of DPDK."""
    port, sockets = "dpdk:", []
    devices = [word for number in (0, 1) for word in (
        "-netdev", "hubport,id=end%d,hubid=0" % number,
        "-device", "e1000e,netdev=end%d,mac=02:00:00:00:00:%02x,addr=%x,romfile=" % (number, number + 1, 5 + number))]
    DRIVERS = ("librte_bus_pci", "librte_mempool_ring", "librte_net_e1000")

    def __init__(self, plugin):
        drivers = [path for name in self.DRIVERS for path in glob.glob("/usr/lib/*/dpdk/pmds-*/%s.so.*[0-9][0-9]" % name)]
        self.libraries = {"lib/" + os.path.basename(path): path for path in drivers}
        loaded = " ".join("-d /" + name for name in self.libraries)
        self.libraries["lib/vipl-dm-dpdk.so"] = plugin
        self.script = "mkdir -p /var/run\nchmod 755 /\n"  # DPDK takes no drivers from below a folder that others may write to
        self.script += 'export VIPL_DM_DPDK=/lib/vipl-dm-dpdk.so VIPL_DM_DPDK_EAL="%s"\n' % loaded + SCRIPT + MOVE


def run_guest(case, name, memory, ends):
    """A guest whose packets are in this memory of gen's and cap's; how many of them were in main memory."""
    frames = packets()
    folder = os.path.join(case.work, name)
    os.mkdir(folder)

    def at(file):
        return os.path.join(folder, file)

    write_recording(at("in.pcap"), frames)
    run(os.path.join(case.folders["amd64"], "vipl-gen"), "--store", "file:" + at("in.pcap"), "--index", at("in.index"))
    make_disk(at("from"))
    make_disk(at("to"))
    shell(PUT, at("in.pcap"), at("from"))
    words = {"lba": LBA, "blocks": BLOCKS, "count": COUNT, "seconds": 60 * SCALE, "gen": memory[0], "cap": memory[1],
             "port": ends.port}
    devices = nvme("from", at("from"), 7, "logical_block_size=4096", "physical_block_size=4096", "mdts=4") + nvme("to", at("to"), 8) + [
        "-object", "memory-backend-ram,id=plain,size=16M,share=on", "-device", "ivshmem-plain,memdev=plain,addr=9"] + ends.devices
    guest = case.guest(name, ends.script % words, programs=["vipl-gen", "vipl-cap"], sockets=ends.sockets, iommu="intel",
                       files={"in.index": at("in.index")}, libraries=ends.libraries, devices=devices)
    guest.wait_for("guest is up", 60)
    ram = guest.ram()
    guest.finish(150)
    shell(GET, at("to"), LBA, at("out.pcapng"))
    check_capture(at("out.pcapng"), frames)
    return len(find_in_memory(ram, frames))


def without_main_memory(case, name, ends):
    found = run_guest(case, name, ("cmb:0000:00:07.0", "cmb:0000:00:08.0"), ends)
    if found != 0:
        raise Failed("%s: %d of %d packets were in main memory" % (name, found, COUNT))


def p2p(case):
    found = run_guest(case, "ram", ("ram", "ram"), Cards(two_cards(case)))
    if found != COUNT:
        raise Failed("through main memory, %d of %d packets were found there" % (found, COUNT))
    without_main_memory(case, "cmb", Cards(one_card(case)))
    plugin = os.path.join(case.folders["amd64"], "..", "libexec", "vipl-dm-dpdk.so")
    if os.path.exists(plugin):
        without_main_memory(case, "dpdk", Adapters(plugin))


if __name__ == "__main__":
    sys.exit("a part of nic.py")
