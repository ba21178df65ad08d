# SPDX-License-Identifier: MIT
"""Who is compared, how it is run, and how its figure is read. A figure is a microsecond one way, 10^6 bytes a second, or 10^6 messages
a second. Each function runs one contender once, for one size; None: it gave no figure."""
import json
import os
import re
import subprocess
import time

SERVER_CPU, CLIENT_CPU = "0", "1"
LIMIT_S = 60
READY_S = 10

LATENCY, BANDWIDTH, RATE = "lat", "bw", "rate"


class Machine:
    """Where the programs are, and how long a figure may take."""

    def __init__(self, build, seconds):
        self.build, self.seconds = build, seconds
        self.problems = {}  # contender: what it said last when it gave no figure

    def complain(self, who, text):
        self.problems[who] = " ".join(text.split())[-200:]


def is_listening(port):
    wanted = "%04X" % port
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                if any(line.split()[1].endswith(":" + wanted) and line.split()[3] == "0A" for line in file.readlines()[1:]):
                    return True
        except OSError:
            pass
    return False


def await_port(port):
    end = time.monotonic() + READY_S
    while not is_listening(port) and time.monotonic() < end:
        time.sleep(0.01)


def run_pair(machine, who, server, client, port, environment=None):
    """The text of a client whose server listens at a port; each has a CPU."""
    env = dict(os.environ, **(environment or {}))
    one = subprocess.Popen(["taskset", "-c", SERVER_CPU] + server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        await_port(port)
        other = subprocess.run(["taskset", "-c", CLIENT_CPU] + client, capture_output=True, text=True, timeout=LIMIT_S, env=env,
                               check=False)
        if other.returncode != 0:
            machine.complain(who, other.stderr or other.stdout)
        return other.stdout
    except subprocess.TimeoutExpired:
        machine.complain(who, "not over after %d s" % LIMIT_S)
        return ""
    finally:
        one.kill()
        one.wait()


# ---- ours, and what the machine can do without us: vipl-perf measures that beside ours, in turns ---------------------------

def vipl(machine, device, kind, op, size, extra, limits):
    """Ours, and {limit: figure}."""
    command = [os.path.join(machine.build, "bin", "vipl-perf"), "--pair", "--json", "--device", device, "--test", kind, "--op", op,
               "--size", str(size), "--duration", str(machine.seconds), "--cpus", SERVER_CPU + "," + CLIENT_CPU] + extra
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        machine.complain("VIPL " + op, "not over after %d s" % LIMIT_S)
        return None, {}
    if text.returncode != 0 or not text.stdout:
        machine.complain("VIPL " + op, text.stderr)
        return None, {}
    row = json.loads(text.stdout.splitlines()[-1])
    figure = row["median"] if kind == LATENCY else row["mean"]
    return figure, {limit: row.get("limit_" + limit) for limit in limits}


# ---- peers ------------------------------------------------------------------------------------------------------------------

def ucx(machine, who, transports, test, kind, size):
    iterations = {LATENCY: 20000, BANDWIDTH: 4000, RATE: 200000}[kind] * machine.seconds / 0.2
    if "tcp" in transports:
        iterations /= 8
    if size >= 65536:
        iterations /= 5 * max(1, size / 262144)
    n = str(max(100, int(iterations)))
    client = ["ucx_perftest", "127.0.0.1", "-t", test, "-s", str(size), "-n", n, "-w", str(int(n) // 10 + 1), "-f", "-v"]
    text = run_pair(machine, who, ["ucx_perftest"], client, 13337, {"UCX_TLS": transports, "UCX_NET_DEVICES": "lo", "UCX_LOG_LEVEL": "error"})
    rows = [line.split(",") for line in text.splitlines() if re.match(r"^ *\d+,", line)]
    if not rows:
        return None
    # iterations, median, average and overall latency, average and overall bandwidth (MiB/s) and rate
    row = [float(field) for field in rows[-1]]
    return {LATENCY: row[1], BANDWIDTH: row[5] * 1.048576, RATE: row[7] / 1e6}[kind]


def libfabric(machine, who, provider, endpoint, kind, size):
    if kind != LATENCY:
        return None
    n = max(100, int((10000 if provider == "shm" else 2500) * machine.seconds / 0.2 / (4 if size >= 65536 else 1)))
    options = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", str(n), "-S", str(size)] + ([] if provider == "shm" else ["-d", "lo"])
    text = run_pair(machine, who, options, options + ["127.0.0.1"], 47592, {"FI_LOG_LEVEL": "warn", "FI_PROVIDER": provider})
    rows = [line.split() for line in text.splitlines() if re.match(r"^\d", line)]
    return float(rows[-1][6]) if rows and len(rows[-1]) == 8 else None  # a mean: it has no median


def qperf(machine, who, test, kind, size):
    text = run_pair(machine, who, ["qperf"], ["qperf", "-t", "1", "-m", str(size), "127.0.0.1", test], 19765)
    match = re.search(r"= +([\d.]+) (\S+)", text)
    units = {"ns": 1e-3, "us": 1, "ms": 1e3, "KB/sec": 1e-3, "MB/sec": 1, "GB/sec": 1e3}
    return float(match.group(1)) * units[match.group(2)] if match and kind != RATE else None


def openmpi(machine, who, layer, kind, size):
    program = os.path.join(machine.build, "bin", "vipl-compare-mpi")
    if not os.path.exists(program) or kind == RATE:
        return None
    turns = (3000 if kind == LATENCY else 20) if size < 65536 else (500 if kind == LATENCY else 4)
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--bind-to", "core", "--mca", "pml", "ob1", "--mca", "btl",
               "self," + layer] + (["--mca", "btl_tcp_if_include", "lo"] if layer == "tcp" else []) + [program, kind, str(size), str(turns)]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        machine.complain(who, "not over after %d s" % LIMIT_S)
        return None
    if text.returncode != 0:
        machine.complain(who, text.stderr)
        return None
    return float(text.stdout.split()[-1])
