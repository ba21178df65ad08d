# SPDX-License-Identifier: MIT
"""Descriptors and addresses of VIPL as what they mean: in gdb, `source vipl.py`, then print *descriptor, print *address."""
import gdb
import gdb.printing

OPERATIONS = ["SEND", "RDMA_WRITE", "RDMA_READ", "operation 3"]
DONE = ["SEND", "RECEIVE", "RDMA_WRITE", "REMOTE_RDMA_WRITE", "RDMA_READ"]
ERRORS = ["FORMAT_ERROR", "PROTECTION_ERROR", "LENGTH_ERROR", "PARTIAL_ERROR", "DESC_FLUSHED_ERROR", "TRANSPORT_ERROR",
          "RDMA_PROT_ERROR", "REMOTE_DESC_ERROR"]
IMMEDIATE, QFENCE = 4, 8  # of Control
STATUS_DONE, STATUS_IMMEDIATE = 1, 1 << 19
SEGMENT_LIMIT = 252


def number(value):
    return int(value)


def status_text(status):
    """As VipxStrStatus()."""
    operation = status >> 16 & 7
    words = ["DONE" if status & STATUS_DONE else "PENDING", DONE[operation] if operation < len(DONE) else "operation %d" % operation]
    words += [name for bit, name in enumerate(ERRORS) if status >> bit + 1 & 1]
    return " ".join(words + (["IMMEDIATE"] if status & STATUS_IMMEDIATE else []))


class Descriptor:
    """VIP_DESCRIPTOR."""

    def __init__(self, value):
        self.value, self.control = value, value["CS"]

    def segments(self):
        """As many as SegCount says, in memory behind each other; the first one of an RDMA is of the peer."""
        first = self.value["DS"][0].address
        rdma = number(self.control["Control"]) & 3 != 0
        for i in range(min(number(self.control["SegCount"]), SEGMENT_LIMIT)):
            segment = (first + i).dereference()
            if i == 0 and rdma:
                remote = segment["Remote"]
                yield "remote 0x%x (0x%x)" % (number(remote["Data"]["AddressBits"]), number(remote["Handle"]))
            else:
                local = segment["Local"]
                yield "local 0x%x + %d (0x%x)" % (number(local["Data"]["AddressBits"]), number(local["Length"]), number(local["Handle"]))

    def to_string(self):
        control = number(self.control["Control"])
        words = [OPERATIONS[control & 3], "%d segments" % number(self.control["SegCount"])]
        if control & IMMEDIATE or number(self.control["Status"]) & STATUS_IMMEDIATE:
            words.append("immediate 0x%x" % number(self.control["ImmediateData"]))
        if control & QFENCE:
            words.append("QFENCE")
        return "%s; %s; %d bytes {%s}" % (", ".join(words), status_text(number(self.control["Status"])), number(self.control["Length"]),
                                          ", ".join(self.segments()))


class Address:
    """VIP_NET_ADDRESS: bytes of a host, then those of a name."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        host, name = number(self.value["HostAddressLen"]), number(self.value["DiscriminatorLen"])
        if host > 64 or name > 64:
            return "lengths %d and %d: not an address" % (host, name)
        data = bytes(gdb.selected_inferior().read_memory(self.value["HostAddress"].address, host + name))
        text = data[host:]
        shown = '"%s"' % text.decode("ascii") if all(32 <= byte < 127 for byte in text) else text.hex()
        return "host %s, %s" % (":".join("%02x" % byte for byte in data[:host]), shown)


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("vipl")
    collection.add_printer("descriptor", "^_?VIP_DESCRIPTOR$", Descriptor)
    collection.add_printer("address", "^_?VIP_NET_ADDRESS$", Address)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
