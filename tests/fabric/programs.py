#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote, over the provider: those of libfabric itself, and Open MPI's.

    programs.py info DEVICE
    programs.py pingpong DEVICE TYPE [ARGUMENT...]      TYPE: msg or rdm, which is ofi_rxm above the provider
    programs.py mpi DEVICE RANKS PROGRAM [ARGUMENT...]
    programs.py cache DEVICE RANKS PROGRAM              mpi_check, which uses the same memory for 50 messages of each direction
    programs.py hpcc DEVICE RANKS
    programs.py lammps DEVICE RANKS                     the numbers are those over Open MPI's own transport

FI_PROVIDER_PATH says where the provider is. Exit code 77: the program is not here.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60 * int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))


def must_have(program):
    if shutil.which(program) is None:
        print("%s is not here" % program)
        sys.exit(77)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listens(port):
    """Whether a program listens on the port. To connect would take the place of the client."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[1].endswith(":%04X" % port) and fields[3] == "0A":
                    return True
    return False


def await_listener(server, port):
    end = time.monotonic() + LIMIT_S
    while not listens(port):
        if time.monotonic() > end:
            sys.exit("HUNG: the server does not listen")
        try:
            server.wait(0.01)
            sys.exit("the server has ended: %s" % server.communicate()[0])
        except subprocess.TimeoutExpired:
            pass


def info(device):
    must_have("fi_info")
    shown = subprocess.run(["fi_info", "-p", "vipl"], stdout=subprocess.PIPE, timeout=LIMIT_S, check=True, universal_newlines=True).stdout
    print(shown)
    for text in ("provider: vipl\n", "provider: vipl;ofi_rxm\n", "fabric: %s\n" % device, "type: FI_EP_MSG\n", "type: FI_EP_RDM\n"):
        if text not in shown:
            sys.exit("not there: " + text)


def pingpong(device, kind, *arguments):
    """The bytes of each message are compared (-c)."""
    must_have("fi_pingpong")
    port = free_port()
    command = ["fi_pingpong", "-p", "vipl", "-e", kind, "-d", device, "-c"] + list(arguments)
    server = subprocess.Popen(command + ["-B", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    try:
        await_listener(server, port)
        client = subprocess.run(command + ["-P", str(port), "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
                                check=False, universal_newlines=True)
        said = server.communicate(timeout=LIMIT_S)[0]
    finally:
        server.kill()
    print(client.stdout)
    if client.returncode != 0 or server.returncode != 0:
        sys.exit("client %d, server %d: %s" % (client.returncode, server.returncode, said))
    sizes = re.findall(r"^(\d+\S*) +\d+ +=\d+ ", client.stdout, re.M)
    if "64" not in sizes or "1m" not in sizes:
        sys.exit("sizes are missing: %s" % sizes)


OVER_VIPL = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "vipl"]


def mpirun(device, ranks, command, logs=(), over=tuple(OVER_VIPL), **more):
    must_have("mpirun.openmpi")
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", FI_VIPL_DEVICE=device)
    environment.update(logs)
    options = ["--oversubscribe", "-np", ranks, "--mca", "mpi_yield_when_idle", "1"] + list(over)
    for name in sorted(environment):
        if name.startswith(("FI_", "VIPL_")):
            options += ["-x", name]
    return subprocess.run(["mpirun.openmpi"] + options + command, env=environment, check=False, **more)


def cache(device, ranks, program):
    """One registration for each long message and side, and all but the first of the same memory are found: nothing above the provider
    keeps regions, too."""
    done = mpirun(device, ranks, [program], logs={"FI_LOG_LEVEL": "info", "FI_LOG_PROV": "vipl"}, stdout=subprocess.PIPE,
                  stderr=subprocess.STDOUT, timeout=2 * LIMIT_S, universal_newlines=True)
    lines = re.findall(r", cache: hits=(\d+) misses=(\d+) off=(\d+) once=(\d+) .*", done.stdout)
    for hits, misses, off, once in lines:
        print("hits=%s misses=%s off=%s once=%s" % (hits, misses, off, once))
    if done.returncode != 0 or len(lines) != int(ranks):
        sys.exit("%d ranks said what the cache did; the program ended with %d: %s" % (len(lines), done.returncode, done.stdout))
    for hits, misses, off, once in lines:
        if int(off) == 0 and int(hits) < 98 or int(once) == 0 or int(hits) + int(misses) < 100 + int(once):
            sys.exit("too few: %s" % lines)


def hpcc_settings(ranks):
    """A small problem, on one row of processes: Linpack's lines, and none more for PTRANS."""
    lines = ["HPCC", "a test", "HPL.out", "8", "1", "200", "1", "80", "0", "1", "1", ranks, "16.0", "1", "2", "1", "4", "1", "2", "1", "1", "1",
             "1", "1", "0", "2", "64", "0", "0", "1", "8", "-", "0", "200", "0", "40"]
    return "".join(line + "\n" for line in lines)


def hpcc(device, ranks):
    """A little of HPCC: it checks its results itself."""
    must_have("hpcc")
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        with open(os.path.join(folder, "hpccinf.txt"), "w", encoding="ascii") as file:
            file.write(hpcc_settings(ranks))
        code = mpirun(device, ranks, ["hpcc"], cwd=folder).returncode
        with open(os.path.join(folder, "hpccoutf.txt"), encoding="ascii") as file:
            results = file.read()
    print("\n".join(line for line in results.splitlines() if re.match(r"(Success|CommWorldProcs|MaxPingPong)", line)))
    if code != 0 or "Success=1" not in results:
        sys.exit("hpcc has failed: %d" % code)


def lammps(device, ranks):
    """A melting crystal. All digits that the program prints of energies and pressures are compared."""
    must_have("lmp")
    script = "/usr/share/lammps/examples/melt/in.melt"
    if not os.path.exists(script):
        print("LAMMPS has no examples here")
        sys.exit(77)
    seen = []
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        for name, over in (("own", []), ("vipl", OVER_VIPL)):
            log = os.path.join(folder, name)
            code = mpirun(device, ranks, ["lmp", "-in", script, "-log", log], over=over, cwd=folder, stdout=subprocess.DEVNULL,
                          timeout=3 * LIMIT_S).returncode
            if code != 0:
                sys.exit("%s: lmp has failed: %d" % (name, code))
            with open(log, encoding="ascii") as file:
                seen.append(re.findall(r"^ +\d+(?: +[-\d.e]+){5} *$", file.read(), re.M))
    print("\n".join(seen[1]))
    if len(seen[0]) != 6 or seen[0] != seen[1]:
        sys.exit("WRONG: over Open MPI's own transport it is\n" + "\n".join(seen[0]))


def main(words):
    if len(words) < 2:
        sys.exit(__doc__.strip())
    if words[0] == "info":
        info(words[1])
    elif words[0] == "pingpong":
        pingpong(words[1], words[2], *words[3:])
    elif words[0] == "mpi":
        sys.exit(mpirun(words[1], words[2], words[3:]).returncode)
    elif words[0] == "cache":
        cache(*words[1:])
    elif words[0] == "lammps":
        lammps(words[1], words[2])
    else:
        hpcc(words[1], words[2])


if __name__ == "__main__":
    main(sys.argv[1:])
