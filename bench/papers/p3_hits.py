#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""P3.6, which the paper left open: how often real programs find their memory in the registration cache.

    p3_hits.py BUILD [--device NAME] [--ranks N] [--only PROGRAM]

Programs of Debian over the provider of libfabric, those that are here: HPCC, LAMMPS (melt and peptide), and p3_fft.py by mpi4py. Messages above 2 KiB go
from memory to memory. Each runs with several limits of the cache (VIPL_CACHE_MIB, VIPL_CACHE_REGIONS) and with several allocators. A cell has the
part of the look-ups that were hits, of all ranks, in per cent, and below the table how many look-ups there were. These are counts that VIPL makes, so
they hold on a busy machine. The cache ends the least recently used region; it has no other policy. p3_plot.py draws the first table.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

from mpirun import is_here, mpirun

HERE = os.path.dirname(os.path.abspath(__file__))
LAMMPS = "/usr/share/lammps/examples"
ENVIRONMENT = {"FI_LOG_LEVEL": "info", "FI_LOG_PROV": "vipl", "FI_OFI_RXM_BUFFER_SIZE": "2048", "FI_OFI_RXM_SAR_LIMIT": "1"}
LIMIT_S = 600

LIMITS = [("%d MiB" % mib, {"VIPL_CACHE_MIB": str(mib)}) for mib in (1, 2, 4, 16, 64)] + [("no limit", {})]
REGIONS = [("%d regions" % most, {"VIPL_CACHE_REGIONS": str(most)}) for most in (4, 16, 64)]


def library(name):
    found = glob.glob("/usr/lib/*/" + name)
    return found[0] if found else None


def allocators():
    """(name, environment) of those that are here."""
    chosen = [("glibc", {}), ("glibc, mmap from 16 KiB", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=16384"})]
    for name, file in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4")):
        if library(file):
            chosen.append((name, {"LD_PRELOAD": library(file)}))
    return chosen


def python_of_mpi():
    """A Python that has mpi4py and numpy."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import mpi4py, numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def hpcc_settings(ranks):
    lines = ["HPCC", "hits", "HPL.out", "8", "1", "600", "1", "80", "0", "1", "1", str(ranks), "16.0", "1", "2", "1", "4", "1", "2", "1", "1", "1",
             "1", "1", "0", "2", "64", "0", "0", "1", "8", "-", "0", "600", "0", "40"]
    return "".join(line + "\n" for line in lines)


def programs(ranks):
    """{name: (command, {file: text})}"""
    chosen = {}
    if shutil.which("hpcc"):
        chosen["HPCC"] = (["hpcc"], {"hpccinf.txt": hpcc_settings(ranks)})
    if shutil.which("lmp"):
        for name in ("melt", "peptide"):
            if os.path.isdir(os.path.join(LAMMPS, name)):
                chosen["LAMMPS " + name] = (["lmp", "-in", os.path.join(LAMMPS, name, "in." + name)],
                                            {"data.peptide": os.path.join(LAMMPS, name, "data.peptide")} if name == "peptide" else {})
    if python_of_mpi():
        chosen["mpi4py FFT"] = ([python_of_mpi(), os.path.join(HERE, "p3_fft.py")], {})
    return chosen


def run(build, device, ranks, program, more):
    """{number: sum over the ranks} of what the cache said."""
    command, files = program
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        for name, text in files.items():
            if os.path.isfile(text):
                shutil.copy(text, os.path.join(folder, name))
            else:
                with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                    file.write(text)
        done = mpirun(build, device, ranks, command, dict(ENVIRONMENT, **more), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                      text=True, errors="replace", timeout=LIMIT_S)
    lines = re.findall(r", cache: (hits=.*)", done.stdout)
    if done.returncode != 0 or len(lines) != ranks:
        sys.exit("%s %s: %d, %d ranks said what the cache did\n%s" % (command, more, done.returncode, len(lines), done.stdout[-2000:]))
    total = {}
    for line in lines:
        for name, number in re.findall(r"(\S+)=(\d+)", line):
            total[name] = total.get(name, 0) + int(number)
    return total


def lookups(total):
    return total["hits"] + total["misses"] - total["once"]


def show(title, columns, rows):
    """rows: (name, [total of each column])"""
    print("\n%s: hits, %%" % title)
    print("  %-24s" % "" + "".join("%26s" % name for name, _ in columns))
    for name, totals in rows:
        print("  %-24s" % name + "".join("%26.2f" % (100 * total["hits"] / max(1, lookups(total))) for total in totals))
    for name, totals in rows:
        print("  %s: %d look-ups; evicted %s; memory gone %s" % (name, lookups(totals[-1]), [total["evicted"] for total in totals],
                                                              [total["invalidated"] for total in totals]))


def chosen_programs(title):
    """What the command line asks for, and the programs by name. Ends the script if they are not here."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("build")
    parser.add_argument("--device", default="loopback")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", metavar="PROGRAM")
    arguments = parser.parse_args()
    chosen = {name: one for name, one in programs(arguments.ranks).items() if arguments.only in (None, name)}
    if not is_here() or not chosen:
        print("Open MPI or the programs are not here")
        sys.exit(77)
    return arguments, chosen


def main():
    arguments, chosen = chosen_programs(__doc__.splitlines()[0])
    for title, columns in (("P3.6 by the memory that the cache may keep", LIMITS), ("P3.7 by the regions that it may keep", REGIONS),
                           ("P3.8 by the allocator", allocators())):
        rows = [(name, [run(arguments.build, arguments.device, arguments.ranks, one, more) for _, more in columns])
                for name, one in chosen.items()]
        show(title, columns, rows)


if __name__ == "__main__":
    main()
