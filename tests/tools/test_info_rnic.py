# SPDX-License-Identifier: MIT
"""vipl-info on the RDMA card: what it shows is what the card was told to be, and what its registers read."""
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, Running, directory, run, signal  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "src", "rnic"))
sys.dont_write_bytecode = True
import registers  # noqa: E402

FUNCTIONS, MTU, MAC, MBITS = 5, 1500, "02:00:5e:10:20:37", 250
SAME = {"queue_pairs": "MAX_QPS", "completion_queues": "MAX_CQS", "steering_tags": "MAX_STAGS",
        "page_list_entries": "MAX_PBL", "listen_entries": "MAX_LISTENS", "segments": "MAX_SEGMENTS",
        "message_bytes": "MAX_TRANSFER", "dram_bytes": "DRAM_BYTES", "sram_bytes": "SRAM_BYTES",
        "frame_bytes": "MTU", "link_mbits": "LINK_MBITS"}

checks = Checks()
info = os.path.join(directory(), "vipl-info")
folder = tempfile.mkdtemp(prefix="vipl-info-")
path = os.path.join(folder, "card")
rnicd = os.path.join(directory(), "..", "libexec", "vipl-rnicd")
adapter = Running(rnicd, "--socket", path, "--functions", str(FUNCTIONS), "--mtu", str(MTU), "--mac", MAC, "--impair",
                  "rate=%dM" % MBITS)
try:
    until = time.monotonic() + 30
    while run(rnicd, "--stats", "--socket", path).code != 0 and adapter.process.poll() is None:
        if time.monotonic() > until:
            break # what follows says what is missing
    script = os.path.join(ROOT, "examples", "rnic_registers.py")
    result = run(sys.executable, "-B", script, path, env={"PYTHONPATH": os.path.join(ROOT, "src", "rnic")})
    checks.code(result, 0, "reading the registers")
    reads = {line.split()[1]: int(line.split()[2], 16) for line in result.out.splitlines()}

    result = run(info, "--json", "--device", "rnic:socket:" + path)
    checks.code(result, 0, "--json on a card")
    device = (checks.json(result.out, "--json on a card").get("devices") or [{}])[0]
    found = device.get("properties", {})
    checks.that(device.get("address") == MAC, "the card's address", result)
    for name, register in SAME.items():
        checks.that(found.get(name) == reads.get(register, -1), "%s is %s: %r, not %r" %
                    (name, register, found.get(name), reads.get(register)))
    version, slots = reads.get("VERSION", 0), reads.get("READ_SLOTS", 0)
    expected = {"interface_version": "%d.%d" % (version >> 16, version & 0xFFFF), "features": "botf aotf device_memory big_endian", "botf_bytes": 0,
                "function": 0, "functions": FUNCTIONS, "frame_bytes": MTU,
                "work_ring_entries": 1 << reads.get("MAX_WORK", 0),
                "completion_ring_entries": 1 << reads.get("MAX_COMPLETIONS", 0),
                "rdma_reads_inbound": slots & 0xFFFF, "rdma_reads_outbound": slots >> 16, "access": "vfio-user",
                "link_mbits": MBITS, "memory": "linear", "doorbells": "mapped", "device_memory": "mapped", "interrupt_vectors": registers.RNIC_VECTORS, "link": "up"}
    for name, value in expected.items():
        checks.that(found.get(name) == value, "%s is %r, not %r" % (name, found.get(name), value))
    checks.that(reads.get("CAPS") == registers.RNIC_CAPS_BOTF | registers.RNIC_CAPS_AOTF | registers.RNIC_CAPS_DEVICE_MEMORY | registers.RNIC_CAPS_BIG_ENDIAN, "the card has the features that are shown")
    checks.that(found.get("dma") in ("files", "messages"), "a way of DMA: %r" % found.get("dma"))
    checks.that(set(found) == set(SAME) | set(expected) | {"dma"}, "no other properties: %r" % sorted(found))

    result = run(info, "--device", "rnic:socket:" + path)
    checks.code(result, 0, "the table of a card")
    rows = [line[4:34].strip() for line in result.out.splitlines() if line.startswith("    ")]
    checks.that(rows == [name.replace("_", " ") for name in found], "the same in the table: %r" % rows, result)
    checks.that("\n    functions                      %d\n" % FUNCTIONS in result.out, "a number in the table", result)

    result = run(info, "--json", "--device", "rnic:inproc")
    if "rnic_model=off" in run(info, "--json").out:
        checks.code(result, 1, "there is no card in the process")
        checks.that("VIPL_BACKEND_RNIC_MODEL" in result.err, "the reason names the option", result)
    else:
        found = (checks.json(result.out, "the card in the process").get("devices") or [{}])[0].get("properties", {})
        checks.that((found.get("access"), found.get("link")) == ("inproc", "down"), "the card in the process has no wire", result)
        checks.that((found.get("queue_pairs"), found.get("completion_queues")) == (65536, 4096), "its tables", result)
        checks.that((found.get("dram_bytes"), found.get("sram_bytes")) == (16 << 20, 16 << 10), "its memory", result)
    result = run(info, "--json", "--device", "loopback")
    found = (checks.json(result.out, "loopback").get("devices") or [{}])[0]
    checks.that(found.get("properties") == {}, "loopback has nothing of its own to say", result)
    checks.that(adapter.signal(signal.SIGTERM) == 0, "the adapter ends when it is asked to")
finally:
    adapter.close()
    shutil.rmtree(folder, ignore_errors=True)
checks.finish()
