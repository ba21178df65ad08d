#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""P3.5: messages of MPI between two ranks over VIPL, with the registration cache and without it, beside Open MPI's own ways and the paper's.

    p3_mpi.py BUILD [--device NAME] [--rounds N] [--quick]

One-way latency and bandwidth by vipl-compare-mpi, which uses the same memory for all messages. Wall time, two ranks that poll, medians over rounds; in
a round one way is measured after the other, so that ratios hold where times do not. Long messages are handed over from memory to memory from 16 KiB
on (FI_OFI_RXM_SAR_LIMIT=1): libfabric would copy up to 128 KiB. The paper has MPI at 25 MB/s by copying and at 111.5 MB/s by its cache.
"""
import argparse
import os
import statistics
import sys

from mpirun import OFI_TCP, VADER, is_here, mpirun

RENDEZVOUS = {"FI_OFI_RXM_SAR_LIMIT": "1"}
LATENCY = ((8, 5000), (4096, 2000), (65536, 1000), (1048576, 100))
BANDWIDTH = ((65536, 10), (1048576, 2))
PAPER = {"cache": 111.5, "copying": 25}


def ways(device):
    """(name, where, environment): the first is ours. "rxm": by libfabric's ofi_rxm above the provider; the first has datagrams of the provider's own."""
    return (("VIPL %s" % device, device, {"FI_VIPL_RDM": "yes"}),
            ("VIPL %s, rxm, cache" % device, device, RENDEZVOUS),
            ("VIPL %s, rxm, no cache" % device, device, dict(RENDEZVOUS, FI_VIPL_CACHE="no")),
            ("VIPL %s, rxm, copied to 128 KiB" % device, device, {}),
            (VADER, VADER, {}),
            (OFI_TCP, OFI_TCP, {}))


def figure(build, way, kind, size, turns):
    done = mpirun(build, way[1], 2, [os.path.join(build, "bin", "vipl-compare-mpi"), kind, str(size), str(turns)], way[2], spins=True,
                  capture_output=True, text=True, timeout=120)
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        sys.exit("%s, %s of %d bytes: %d: %s" % (way[0], kind, size, done.returncode, done.stderr))


def table(title, build, chosen, kind, sizes, rounds):
    seen = {}
    for _ in range(rounds):
        for size, turns in sizes:
            for way in chosen:
                seen.setdefault((way[0], size), []).append(figure(build, way, kind, size, turns))
    median = {key: statistics.median(values) for key, values in seen.items()}
    print("\n%s (wall time, medians of %d)" % (title, rounds))
    print("  %-32s" % "" + "".join("%14d B" % size for size, _ in sizes))
    for way in chosen:
        print("  %-32s" % way[0] + "".join("%16.4g" % median[way[0], size] for size, _ in sizes))
    for way in chosen[1:]:
        print("  %-32s" % ("  ours beside " + way[0])[:32] + "".join("%16.3f" % (median[chosen[0][0], size] / median[way[0], size])
                                                                   for size, _ in sizes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--device", default="loopback")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="latency of three sizes alone")
    arguments = parser.parse_args()
    if not is_here():
        print("Open MPI is not here")
        sys.exit(77)
    chosen = ways(arguments.device)
    if arguments.quick:
        table("P3.5 MPI, one way, us", arguments.build, [way for way in chosen if "copied" not in way[0]], "lat",
              [one for one in LATENCY if one[0] != 4096], arguments.rounds)
        return
    table("P3.5 MPI, one way, us", arguments.build, chosen, "lat", LATENCY, arguments.rounds)
    table("P3.5 MPI, 64 messages in flight, 10^6 bytes/s", arguments.build, chosen, "bw", BANDWIDTH, arguments.rounds)
    print("  the paper: %(copying)g by copying, %(cache)g by its cache" % PAPER)


if __name__ == "__main__":
    main()
