# SPDX-License-Identifier: MIT
"""What is compared with what: a table of figures over sizes, with its contenders, of which some are the machine's limits and some ours."""
import contenders as c

# A send is beside the limit and beside sends of others, an RDMA write beside their "put".
LIMIT, OURS, PEER, OUR_PUT, PUT = "limit", "ours", "peer", "our put", "put"
BESIDE = {OURS: PEER, OUR_PUT: PUT}


def size_text(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return "%g%s" % (size / unit, name)
    return "%g" % size


class Contender:
    """`figures(machine, size)` is {name: figure}; `names` are those that it may have, with what they are."""

    def __init__(self, names, figures, program):
        self.names, self.figures, self.program = names, figures, program


class Table:
    def __init__(self, key, title, kind, sizes, quick_sizes, contenders):
        self.key, self.title, self.kind = key, title, kind
        self.sizes, self.quick_sizes, self.contenders = sizes, quick_sizes, contenders

    def names(self):
        return [each for contender in self.contenders for each in contender.names]


def ours(device, kind, op, name, limits=(), extra=()):
    """`limits` are (vipl-perf's name, name in the table)."""
    def figures(machine, size):
        figure, beside = c.vipl(machine, device, kind, op, size, list(extra), [limit for limit, _ in limits])
        return dict([(title, beside.get(limit)) for limit, title in limits], **{name: figure})
    return Contender([(title, LIMIT) for _, title in limits] + [(name, OURS if op == "send" else OUR_PUT)], figures, None)


def peer(name, program, run, *arguments):
    kind = PUT if "put" in name else PEER
    return Contender([(name, kind)], lambda machine, size: {name: run(machine, name, *arguments, size)}, program)


SHM, VMREAD, RAW, BLOCKING = "limit: shared memory, one copy", "limit: one process_vm_readv", "limit: raw socket", "limit: raw socket, blocking"
LAT, BW, RATE = c.LATENCY, c.BANDWIDTH, c.RATE
TCP = "tcp:127.0.0.1"
SMALL, FEW = (8, 64, 512, 1024, 4096, 16384, 65536), (8, 4096, 65536)
LARGE, TWO = (4096, 16384, 65536, 262144, 1048576), (65536, 1048576)

TABLES = [
    Table("latency-loopback", "One host, two processes that poll: latency one way, us", LAT, SMALL, FEW, [
        ours("loopback", LAT, "send", "VIPL send", [("shm", SHM)], ["--limits"]),
        ours("loopback", LAT, "send", "VIPL send, shared memory", (), ["--memory", "shared"]),
        ours("loopback", LAT, "write", "VIPL RDMA write, shared memory", (), ["--memory", "shared"]),
        ours("loopback", LAT, "write", "VIPL RDMA write, heap"),
        peer("UCX tag", "ucx_perftest", c.ucx, "posix,cma", "tag_lat", LAT),
        peer("UCX put", "ucx_perftest", c.ucx, "posix,cma", "ucp_put_lat", LAT),
        peer("libfabric shm (mean)", "fi_pingpong", c.libfabric, "shm", "rdm", LAT),
        peer("Open MPI", "mpirun", c.openmpi, "vader", LAT)]),
    Table("bandwidth-loopback", "One host, two processes that poll: bandwidth, 10^6 bytes/s", BW, LARGE, TWO, [
        ours("loopback", BW, "send", "VIPL send", [("shm", SHM), ("vmread", VMREAD)], ["--limits"]),
        ours("loopback", BW, "send", "VIPL send, shared memory", (), ["--memory", "shared"]),
        ours("loopback", BW, "write", "VIPL RDMA write, shared memory", (), ["--memory", "shared"]),
        ours("loopback", BW, "write", "VIPL RDMA write, heap"),
        peer("UCX tag", "ucx_perftest", c.ucx, "posix,cma", "tag_bw", BW),
        peer("UCX put", "ucx_perftest", c.ucx, "posix,cma", "ucp_put_bw", BW),
        peer("Open MPI", "mpirun", c.openmpi, "vader", BW)]),
    Table("rate-loopback", "One host, two processes that poll: 10^6 messages/s, 64 in flight", RATE, (8, 64), (8,), [
        ours("loopback", RATE, "send", "VIPL send"),
        peer("UCX tag", "ucx_perftest", c.ucx, "posix,cma", "tag_bw", RATE)]),
    Table("latency-tcp", "TCP over the loopback interface, polling: latency one way, us", LAT, SMALL, FEW, [
        ours(TCP, LAT, "send", "VIPL send", [("tcp", RAW)], ["--compare"]),
        ours(TCP, LAT, "write", "VIPL RDMA write", (), ["--receiver", "poll"]),
        peer("UCX tag", "ucx_perftest", c.ucx, "tcp", "tag_lat", LAT),
        peer("UCX put", "ucx_perftest", c.ucx, "tcp", "ucp_put_lat", LAT),
        peer("libfabric tcp (mean)", "fi_pingpong", c.libfabric, "tcp", "msg", LAT),
        peer("Open MPI", "mpirun", c.openmpi, "tcp", LAT)]),
    Table("latency-tcp-blocking", "TCP over the loopback interface, sleeping: latency one way, us", LAT, (8, 4096), (8,), [
        ours(TCP, LAT, "send", "VIPL send", [("tcp", BLOCKING)], ["--compare", "--wait", "block"]),
        peer("qperf (mean)", "qperf", c.qperf, "tcp_lat", LAT)]),
    Table("bandwidth-tcp", "TCP over the loopback interface: bandwidth, 10^6 bytes/s", BW, LARGE, TWO, [
        ours(TCP, BW, "send", "VIPL send", [("tcp", RAW)], ["--compare"]),
        peer("UCX tag", "ucx_perftest", c.ucx, "tcp", "tag_bw", BW),
        peer("qperf", "qperf", c.qperf, "tcp_bw", BW),
        peer("Open MPI", "mpirun", c.openmpi, "tcp", BW)]),
    Table("rate-tcp", "TCP over the loopback interface: 10^6 messages/s, 64 in flight", RATE, (8, 64), (8,), [
        ours(TCP, RATE, "send", "VIPL send"),
        peer("UCX tag", "ucx_perftest", c.ucx, "tcp", "tag_bw", RATE)]),
]
