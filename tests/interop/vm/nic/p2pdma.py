# SPDX-License-Identifier: MIT
"""Recorded packets between files on NVMe controllers and a card, through memory of the controllers that the kernel gives out (P2PDMA),
behind no IOMMU: none of the packets is in the guest's main memory but those of the capture's last block, which the kernel writes
through the page cache. The same again through main memory: there all of them are.
"""
import os
import sys

from guest import SCALE, Failed
from p2p import COUNT, MOVE, check_capture, find_in_memory, make_disk, nvme, one_card, packets, run, write_recording

KERNEL = "amd64-p2pdma"
LAST_BLOCK = 4  # packets that a block of 4,096 bytes of the capture has part in, at most
RECORDED = 1764374400  # a time in whole seconds: mke2fs keeps no others, and an index is bound to it

SCRIPT = """
keep_memory_in_place
mkdir /from /to
disk_of() {
    for name in /sys/bus/pci/devices/$1/nvme/nvme*; do
        echo "/dev/${name##*/}n1"
    done
}
step mount.from mount -t ext4 -o ro "$(disk_of 0000:00:07.0)" /from
step mount.to mount -t ext4 "$(disk_of 0000:00:08.0)" /to
from="--store file:/from/in.pcap --index /in.index --port rnic:pci:0000:00:05.0"
step no.memory refused "gives out no memory" vipl-gen $from --memory p2p:0000:00:06.0
step no.room refused "are free" vipl-gen $from --memory p2p:0000:00:07.0 --bytes 64M
step no.port refused "only a card behind no IOMMU" vipl-gen --store file:/from/in.pcap --port rnic:inproc --memory p2p:0000:00:07.0
cp /other.pcap /tmp
step no.file refused "page cache" vipl-gen --store file:/tmp/other.pcap --port rnic:pci:0000:00:05.0 --memory p2p:0000:00:07.0
step no.bar refused "behind no IOMMU" vipl-gen $from --memory bar:0000:00:06.0:2
step explain vipl-gen $from --memory p2p:0000:00:07.0 --bytes 4M --explain
"""
RUN = """
to="--store file:/to/%(name)s.pcapng --port rnic:pci:0000:00:06.0"
""" + MOVE + """
sync
echo "moved by %(name)s"
read word </dev/console
"""
END = """
step umount umount /to
"""


def disk(path, folder):
    """With a file system that has what is in the folder."""
    make_disk(path)
    run("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", folder, path)


def p2pdma(case):
    frames = packets()

    def at(*names):
        return os.path.join(case.work, *names)

    os.mkdir(at("from"))
    os.mkdir(at("to"))
    recording = at("from", "in.pcap")
    write_recording(recording, frames)
    os.utime(recording, (RECORDED, RECORDED))
    run(os.path.join(case.folders["amd64"], "vipl-gen"), "--store", "file:" + recording, "--index", at("in.index"))
    write_recording(at("other.pcap"), [bytes(60)])
    for end in ("from", "to"):
        disk(at(end + ".img"), at(end))
    words = {"count": COUNT, "seconds": 60 * SCALE}
    device = {"name": "p2p", "gen": "p2p:0000:00:07.0", "cap": "p2p:0000:00:08.0"}
    main = {"name": "ram", "gen": "ram", "cap": "ram"}
    guest = case.guest("p2pdma", SCRIPT + RUN % dict(words, **device) + RUN % dict(words, **main) + END, kernel=KERNEL,
                       programs=["vipl-gen", "vipl-cap"], sockets=one_card(case), files={name: at(name) for name in ("in.index", "other.pcap")},
                       devices=nvme("from", at("from.img"), 7) + nvme("to", at("to.img"), 8))
    guest.wait_for("guest is up", 60)
    found = {}
    for name in ("p2p", "ram"):
        guest.wait_for("moved by " + name, 100)
        found[name] = find_in_memory(guest.ram(), frames)
        guest.tell("on")
    guest.finish(60)
    for name in ("p2p", "ram"):
        run("debugfs", "-R", "dump /%s.pcapng %s" % (name, at(name + ".pcapng")), at("to.img"))
        check_capture(at(name + ".pcapng"), frames)
    if not found["p2p"] <= set(range(COUNT - LAST_BLOCK, COUNT)):
        raise Failed("through memory of the controllers, packets %s were in main memory" % sorted(found["p2p"]))
    if len(found["ram"]) != COUNT:
        raise Failed("through main memory, %d of %d packets were found there" % (len(found["ram"]), COUNT))


if __name__ == "__main__":
    sys.exit("a part of nic.py")
