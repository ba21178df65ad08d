#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Unit tests and conformance under valgrind: no read of what was never written, none outside of a block, and not one such byte
given to the kernel, hence to a peer.

    memcheck.py FOLDER-OF-THE-PROGRAMS FOLDER-FOR-LOGS [PART...]

In one process, where all cases are played: between processes each child would be interpreted anew. An
error is printed with its stack, and the exit code is 1.
"""
import concurrent.futures
import glob
import os
import subprocess
import sys
import time

LIMIT_S = 900  # for one part; far above what any needs
VALGRIND = ["valgrind", "-q", "--leak-check=no", "--error-exitcode=99", "--fair-sched=try", "--num-callers=24"]

# Valgrind runs one thread at a time, and interprets.
SPINS = "threads that spin for each other wait for the scheduler each time"
LEFT_OUT_UNIT = [
    ("Status is stored after ImmediateData and Length", "the store that faults is what it looks at"),
    ("memory that is not there is a fault of its side", "likewise"),
    ("where the system forbids copying between processes a pipe does it", "likewise"),
    ("a million messages between two threads", SPINS),
    ("who spins on the last word sees it whole, and all before it", SPINS),
    ("every flag byte of every revision is read as the RFCs say", "a sum over all inputs, of minutes; the fuzz corpus is read instead"),
    ("every combination of the control bytes is judged as the RFCs say", "likewise"),
]
LEFT_OUT_CONFORMANCE = [("5.9 an aligned 4- or 8-byte item of an RDMA Write appears whole*", SPINS)]


def without(cases):
    """Filters that leave cases out."""
    return ["~" + name.replace(",", "\\,") for name, _ in cases]


def conformance(device, mode, *more):
    return ["vipl-conformance", "--device", device, "--mode", mode, *more]


PARTS = {
    "conformance.tcp.inproc": conformance("tcp:127.0.0.1", "inproc", *without(LEFT_OUT_CONFORMANCE)),
    "conformance.loopback.inproc": conformance("loopback", "inproc", *without(LEFT_OUT_CONFORMANCE)),
    "unit": ["vipl-unit-tests", *without(LEFT_OUT_UNIT)],
}


def check(name, number, programs, logs):
    """One part's whole run: (text to print, is it all right)."""
    start = time.monotonic()
    first = 14336 + 256 * number
    program, arguments = PARTS[name][0], PARTS[name][1:]
    environment = dict(os.environ, VIPL_TEST_TIMEOUT_SCALE="4", VIPL_MPA_CRC="on",
                       VIPL_TCP_PORTS="%d-%d" % (first, first + 255))
    log = os.path.join(logs, name)
    for old in glob.glob(log + ".[0-9]*"):
        os.remove(old)
    command = VALGRIND + ["--log-file=%s.%%p" % log, os.path.join(programs, program), *arguments]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                              universal_newlines=True, errors="replace", timeout=LIMIT_S)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = "timeout", (late.stdout or b"").decode(errors="replace")
    errors = []
    for file in sorted(glob.glob(log + ".[0-9]*")):
        with open(file, errors="replace", encoding="utf-8") as found:
            errors.append(found.read())
    errors = "".join(errors)
    right = code == 0 and not errors
    last = (text.strip().splitlines() or ["(nothing)"])[-1]
    line = "%-28s %5d s  %s: %s" % (name, time.monotonic() - start, last, "ok" if right else "FAILED")
    if not right:
        line = "%s\n%s\n%s, exit code %s" % (text[:6000], errors[:20000], line, code)
    return line, right


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: %s FOLDER-OF-THE-PROGRAMS FOLDER-FOR-LOGS [PART...]" % sys.argv[0])
    programs, logs = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(logs, exist_ok=True)
    names = sys.argv[3:] or list(PARTS)
    for name, reason in LEFT_OUT_UNIT + LEFT_OUT_CONFORMANCE:
        print("left out: %s (%s)" % (name, reason), flush=True)
    good = True
    workers = (os.cpu_count() or 1) + 1  # cases wait now and then
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        runs = [pool.submit(check, name, number, programs, logs) for number, name in enumerate(names)]
        for run in concurrent.futures.as_completed(runs):
            line, right = run.result()
            print(line, flush=True)
            good = good and right
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
