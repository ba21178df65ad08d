#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a message costs, counted and compared with the record beside this file: the instructions of the library and of what it calls,
its locked operations, its system calls. Times differ between machines and hours; these counts do not.

    counts.py --self-test
    counts.py VIPL-COUNTS [--compiler NAME] [--only PART-OF-NAME] [--record | --table]

valgrind interprets the program, which marks the parts that count (marks.c). Of all parts that of the fewest instructions is taken: another
one has waited for the kernel. --record writes the record anew, --table prints now, record and target. Without either: exit code 1 if
something has grown without the record. The record is of one compiler; with another one, instructions
may differ more.
"""
import argparse
import concurrent.futures
import glob
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "record.txt")
GROWTH = 0.03           # that is let pass: another version of the C library, for example
LOCKED_GROWTH = 0.01    # likewise, of locked operations: one more in a message is seen
OTHER_COMPILER = 0.25   # likewise, of instructions, where the record is of another compiler
SLEEPERS_GROWTH = 0.25  # likewise, of the system calls of programs that sleep,
SLEEPERS_CALL = 1       # and one call in any case: a server that is kept from running is waited for,
A_SLEEP = 4             # or no growth, and those of one more sleep of an end that waits for the other one on a busy machine
WAITING = frozenset(("clock", "epoll_ctl", "epoll_wait", "futex", "membarrier", "ppoll", "read", "recvfrom", "recvmsg", "write"))
TRACED_GROWTH = 0.10    # of instructions, under a trace that has no sends, beside the same scenario without a trace
# What a call for a TCP connection may cost more with the sockets library loaded: instructions, locked operations
PLAIN_MORE, PLAIN_WAIT_MORE = (70, 0), (380, 6)
SHRINK = 0.10           # beyond which the record is called old
AGAIN = 4               # times that what has grown is counted again
LIMIT_S = 60            # for one scenario; far above what any needs
SKIPPED = 77

# The C library chooses its copies by the CPU; these are every x86-64's.
TUNABLES = "glibc.cpu.hwcaps=" + ",".join(
    "-" + name for name in ("AVX512F", "AVX512VL", "AVX512BW", "AVX2", "AVX", "AVX_Fast_Unaligned_Load", "SSSE3", "SSE4_2", "ERMS",
                            "FSRM", "RTM", "Prefer_ERMS", "Prefer_FSRM", "Fast_Unaligned_Copy"))


class Scenario:
    """One kind of message. `target` is (instructions, locked operations, system calls), None where there is none."""

    def __init__(self, name, options, target=(None, None, None), processes=2, messages=64, parts=4, ends=("first", "second"),
                 only_calls=False, slack=SLEEPERS_CALL, traced=None, plain=None):
        self.name, self.options, self.target = name, options.split(), target
        self.processes, self.messages, self.parts, self.ends = processes, messages, parts, ends
        self.only_calls = only_calls  # who sleeps and wakes is by chance: system calls alone are compared, and not their kinds
        self.growth = 0 if slack > SLEEPERS_CALL else SLEEPERS_GROWTH if only_calls else GROWTH
        self.slack = slack
        self.traced = traced  # the name of the same scenario without a trace
        self.plain = plain    # of calls for a TCP connection: whether the sockets library is loaded; None: of others
        self.in_flight = int(self.options[self.options.index("--in-flight") + 1]) if "--in-flight" in self.options else 1


def alone(name, options, target=(None, None, None)):
    return Scenario("loopback.inproc." + name, options, target, processes=1, ends=("first",))


def procs(name, options, target=(None, None, None), messages=8, parts=32, **more):
    """Short parts: about once a millisecond a call looks whether the peer has ended, and some parts are to have no such look in them."""
    return Scenario("loopback.procs." + name, options, target, messages=messages, parts=parts, **more)


def tcp(name, options, target=(None, None, None), **more):
    return Scenario("tcp.procs." + name, "--device tcp:127.0.0.1 " + options, target, **more)


KERNEL, LOADED = "kernel.", "sockets.plain."


def plain_calls(call):
    """Calls for a TCP connection, without the sockets library and with it."""
    options = "--op plain-" + call
    return [Scenario(name + call, options, processes=1, ends=("first",), plain=name == LOADED) for name in (KERNEL, LOADED)]


TRACED = ".traced"


def traced(scenario):
    """The same under a trace that has none of its calls."""
    more = Scenario(scenario.name + TRACED, "", processes=scenario.processes, messages=scenario.messages, parts=scenario.parts,
                    ends=scenario.ends, traced=scenario.name)
    more.options, more.in_flight = scenario.options, scenario.in_flight
    return more


SCENARIOS = [
    alone("send.8", "--op send", (350, 4, 0)),
    alone("send.8.cq", "--op send --through-cq"),
    alone("send.8.cq.wait_fds", "--op send --through-cq --wait"),
    alone("send.4096", "--op send --size 4096"),
    alone("write.8", "--op write"),
    alone("read.8", "--op read"),
    procs("send.8", "--op send", (550, 4, 0)),
    procs("send.4096", "--op send --size 4096"),
    procs("send.65536", "--op send --size 65536"),
    procs("send.65536.shared_memory", "--op send --size 65536 --shared-memory", (None, None, 0)),
    procs("send.8.in_flight_64", "--op send --in-flight 64", messages=1),
    procs("write.8", "--op write", (None, None, 1)),
    procs("write.8.shared_memory", "--op write --shared-memory", (300, None, 0)),
    procs("read.8", "--op read"),
    procs("read.8.shared_memory", "--op read --shared-memory", (300, None, 0)),
    procs("empty_poll", "--op poll", (60, 0, 0), ends=("first",)),
    procs("post.shareable", "--op post --shareable --in-flight 32", (400, None, 0), messages=1, parts=8, ends=("first",),
          only_calls=True),
    procs("wake.8", "--op wake --through-cq", messages=1, parts=16, only_calls=True),
    procs("wake.8.inline", "--op wake --through-cq --waits-itself", (None, None, 3), messages=1, parts=16, only_calls=True),
    procs("connect", "--op connect", (None, None, 8), messages=1, parts=48, only_calls=True, slack=A_SLEEP),
    tcp("send.8", "--op send", (1200, None, 2)),
    tcp("send.8.in_flight_64", "--op send --in-flight 64", (None, None, 1 / 15), messages=4),
    tcp("send.4096.in_flight_64", "--op send --size 4096 --in-flight 64", messages=4),
    tcp("send.1M", "--op send --size 1048576", messages=4, only_calls=True),
    tcp("write.8.ping_pong", "--op ping-pong"),
    tcp("write.4096.ping_pong", "--op ping-pong --size 4096"),
    tcp("empty_poll", "--op poll", (150, None, 1), ends=("first",)),
    tcp("connect", "--op connect", (None, None, 30), messages=1, parts=48, only_calls=True, slack=2 * A_SLEEP),
]
SCENARIOS += [traced(scenario) for scenario in SCENARIOS if scenario.name in (
    "loopback.inproc.send.8", "loopback.inproc.write.8", "loopback.procs.send.8", "loopback.procs.send.8.in_flight_64",
    "loopback.procs.write.8.shared_memory", "loopback.procs.empty_poll", "tcp.procs.send.8", "tcp.procs.send.8.in_flight_64",
    "tcp.procs.empty_poll")]
SCENARIOS += plain_calls("read") + plain_calls("write") + plain_calls("poll") + plain_calls("epoll")


# ---- running --------------------------------------------------------------------------------------------------------

class Failed(Exception):
    pass


def command(program, scenario, folder, end, line):
    """A program under valgrind, which gives it the same addresses each time."""
    tool = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-strings=no", "--compress-pos=no",
            "--combine-dumps=yes", "--dump-before=counts_mark", "--trace-syscalls=yes",
            "--log-file=%s/%s.log" % (folder, end), "--callgrind-out-file=%s/%s.%%p" % (folder, end)]
    own = scenario.options + ["--messages", str(scenario.messages), "--parts", str(scenario.parts)]
    if line is not None:
        own += ["--line", str(line), "--name", os.path.basename(folder)] + (["--second"] if end == "second" else [])
    return tool + [program] + own


def loaded(program, folder):
    """The sockets library, which the accepting end of a connection has whose client must stay with TCP."""
    rules = os.path.join(folder, "rules")
    with open(rules, "w", encoding="ascii") as file:
        file.write("tcp connect * 127.0.0.1/32:*\n")
    library = os.path.join(os.path.dirname(program), "..", "lib", "libvipl-sockets.so")
    return {"LD_PRELOAD": os.path.realpath(library), "VIPL_SOCKETS_RULES": rules}


def environment(program, scenario, folder, ports):
    kept = {name: os.environ[name] for name in ("PATH", "VIPL_SERVER", "TMPDIR", "XDG_RUNTIME_DIR") if name in os.environ}
    if scenario.traced is not None:
        kept.update(VIPL_TRACE=os.devnull, VIPL_TRACE_OPS="connect")
    if scenario.plain:
        kept.update(loaded(program, folder))
    return dict(kept, GLIBC_TUNABLES=TUNABLES, LD_BIND_NOW="1", LC_ALL="C", VIPL_TCP_PORTS=ports, VIPL_CONFIG="/dev/null",
                VIPL_PROGRESS="auto" if "--shareable" in scenario.options else "inline")


def run(program, scenario, folder, ports):
    """Runs the processes of a scenario; the number of the socket between them, which each has."""
    lines = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if scenario.processes == 2 else (None,)
    started = []
    try:
        for end, line in zip(("first", "second"), lines):
            number = None if line is None else line.fileno()
            started.append(subprocess.Popen(command(program, scenario, folder, end, number), stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, env=environment(program, scenario, folder, ports),
                                            pass_fds=[] if line is None else [number]))
        numbers = [None if line is None else line.fileno() for line in lines]
        for line in lines:
            if line is not None:
                line.close()  # the processes have it: one that waits for the other sees its end
        texts = [one.communicate(timeout=LIMIT_S)[0].decode(errors="replace") for one in started]
        if any(one.returncode != 0 for one in started):
            raise Failed("exit codes %s\n%s" % ([one.returncode for one in started], "".join(texts)))
        return dict(zip(("first", "second"), [(one.pid, number) for one, number in zip(started, numbers)]))
    except subprocess.TimeoutExpired as late:
        raise Failed("not over after %d s" % LIMIT_S) from late
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
                one.wait()


# ---- locked operations ----------------------------------------------------------------------------------------------

PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF2, 0xF3))


def is_locked(code):
    """Whether an instruction of x86-64 is a locked operation: one with the prefix lock, or an xchg with memory."""
    at = 0
    while code[at] in PREFIXES:
        at += 1
    if code[at] == 0xF0:
        return True
    if 0x40 <= code[at] <= 0x4F:  # REX
        at += 1
    return code[at] in (0x86, 0x87) and code[at + 1] >> 6 != 3


class Code:
    """The instructions of an ELF file for 64 bits, by the addresses that callgrind has."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        start, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.segments = []
        for i in range(count):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", self.bytes, start + i * size)
            if kind == 1:  # PT_LOAD
                self.segments.append((address, address + length, offset))
        self.known = {}

    def is_locked(self, address):
        if address not in self.known:
            offset = next(offset + address - first for first, end, offset in self.segments if first <= address < end)
            self.known[address] = is_locked(self.bytes[offset:offset + 16] + bytes(16))
        return self.known[address]


# ---- what valgrind has written --------------------------------------------------------------------------------------

class Part:
    """One part of a run, between two marks."""

    def __init__(self):
        self.costs = {}   # (object, address): how often
        self.below = 0    # instructions of what the program calls itself, but for the library
        self.shares = {}  # function of the library: instructions, with those that it calls
        self.clock = 0    # how often the library asks for the time


def read_costs(path, program):
    """The parts of a callgrind file."""
    parts, part, obj, function, called = [], None, None, None, None
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("0x"):
                address, cost = line.split()[:2]
                if called is None:
                    part.costs[obj, int(address, 16)] = part.costs.get((obj, int(address, 16)), 0) + int(cost)
                else:
                    take_call(part, (obj, program), called, int(cost))
                    called, callee_obj = None, None
                continue
            key, _, value = line.strip().partition("=")
            if line.startswith("part: "):
                part, obj, callee_obj = Part(), None, None
                parts.append(part)
            elif key == "ob":
                obj = value
            elif key == "fn":
                function, callee_obj = value, None
            elif key == "cob":
                callee_obj = value
            elif key == "cfn":
                callee = value
            elif key == "calls":
                called = (function, callee_obj or obj, callee, int(value.split()[0]))
    return parts


def take_call(part, place, call, cost):
    """A line about a call: from the program down, or from the library to the program's clock."""
    obj, program = place
    _, callee_obj, callee, count = call
    if obj == program and callee.startswith("Vip"):
        part.shares[callee] = part.shares.get(callee, 0) + cost
    elif obj == program and callee_obj != program and count > 0:  # one of none has begun before the part: main()
        part.below += cost
    elif obj != program and callee_obj == program and callee == "clock_gettime":
        part.clock += count


CALL = re.compile(r"SYSCALL\[(\d+),\d+\]\( *\d+\) (?:sys_)?(\w+) ?\( *([^,) ]*)(?:, *[^,)]*)?(?:, *(\d+))?")


def read_calls(path, process, line):
    """The marks, each with the system calls after it: [(is it counted, {name: count})]. First comes what was before the first."""
    marks = [(False, {})]
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:
            found = CALL.match(text)
            if found is None or int(found[1]) != process:
                continue
            name, argument = found[2], found[3]
            if name == "read" and argument in ("-1", "4294967295"):
                marks.append((found[4] == "1", {}))
            elif name == "clock_gettime" or (name in ("read", "write") and line is not None and argument == str(line)):
                continue  # the program's clock (Part.clock), and the turns of the two processes
            else:
                marks[-1][1][name] = marks[-1][1].get(name, 0) + 1
    return marks


class Count:
    """What one message costs at one end, or at both."""

    def __init__(self, instructions=0, locked=0, calls=None, shares=None):
        self.instructions, self.locked = instructions, locked
        self.calls = calls or {}    # kind: how many; "clock" is asking for the time, which is no system call
        self.shares = shares or {}  # function: instructions

    def __add__(self, other):
        return Count(self.instructions + other.instructions, self.locked + other.locked, add(self.calls, other.calls),
                     add(self.shares, other.shares))

    def system_calls(self):
        return sum(count for name, count in self.calls.items() if name != "clock")

    def calls_that_act(self):
        """Those that are there however often an end sleeps."""
        return sum(count for name, count in self.calls.items() if name not in WAITING)


def add(one, other):
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


CODE = {}


def count_part(part, calls, program, messages, below):
    """A part's Count. The program's own instructions are none of the library's, nor are the `below` of what it calls itself."""
    instructions, locked = -below, 0
    for (obj, address), cost in part.costs.items():
        if obj in (program, "???"):
            continue
        instructions += cost
        if obj not in CODE:
            CODE[obj] = Code(obj)
        if CODE[obj].is_locked(address):
            locked += cost
    calls = dict(calls, clock=part.clock) if part.clock > 0 else calls
    return Count(instructions / messages, locked / messages, {name: count / messages for name, count in calls.items()},
                 {name: cost / messages for name, cost in part.shares.items()})


def count_end(scenario, folder, end, known, program):
    process, line = known
    parts = read_costs(glob.glob("%s/%s.%d" % (folder, end, process))[0], program)
    marks = read_calls("%s/%s.log" % (folder, end), process, line)
    if len(parts) != len(marks):
        raise Failed("%d parts, but %d marks" % (len(parts), len(marks)))
    messages = scenario.messages * scenario.in_flight * (2 if "ping-pong" in scenario.options else 1)
    counts = [count_part(part, calls, program, messages, part.below if scenario.plain is None else 0)
              for part, (counted, calls) in zip(parts, marks) if counted]
    if len(counts) != scenario.parts:
        raise Failed("%d parts are counted, not %d" % (len(counts), scenario.parts))
    return min(counts, key=lambda one: (one.system_calls(), one.instructions) if scenario.only_calls else one.instructions)


def count(program, scenario, ports):
    """{"": both ends together, "first": one of them...}, or what went wrong as text."""
    with tempfile.TemporaryDirectory(prefix="vipl-counts-") as folder:
        try:
            known = run(program, scenario, folder, ports)
            ends = {end: count_end(scenario, folder, end, known[end], program) for end in scenario.ends}
        except Failed as failed:
            return "%s: %s" % (scenario.name, failed)
    total = Count()
    for one in ends.values():
        total = total + one
    return {"": total, **(ends if len(ends) > 1 else {})}


def count_all(program, scenarios):
    """Counts by name, as many scenarios at a time as there are CPUs, each with ports of its own; and what failed."""
    first = int(os.environ.get("VIPL_TCP_PORTS", "21000-21255").split("-")[0])
    ports = ["%d-%d" % (first + 8 * i, first + 8 * i + 7) for i in range(len(scenarios))]
    counts, failures = {}, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for scenario, found in zip(scenarios, pool.map(lambda one: count(program, *one), zip(scenarios, ports))):
            if isinstance(found, str):
                failures.append(found)
            else:
                counts[scenario.name] = found
    return counts, failures


def least(one, other):
    """Of two runs of a scenario the one that needed less."""
    return min(one, other, key=lambda run: (run[""].system_calls(), run[""].instructions))


def confirm(program, scenarios, counts, record, growth):
    """Counts again what has grown, a few times and one at a time: a busy machine adds to a count, and takes nothing away."""
    for scenario in scenarios:
        tries = AGAIN
        while (tries > 0 and scenario.name in counts and scenario.name in record
               and differences(scenario, counts[scenario.name][""], record[scenario.name], growth)[0]):
            tries -= 1
            again, _ = count_all(program, [scenario])
            counts[scenario.name] = least(counts[scenario.name], again.get(scenario.name, counts[scenario.name]))


def repeat(program, scenarios, counts):
    """For the record: where ends sleep the least of several runs is what is needed."""
    for scenario in scenarios:
        for _ in range(AGAIN if scenario.only_calls and scenario.name in counts else 0):
            again, _ = count_all(program, [scenario])
            counts[scenario.name] = least(counts[scenario.name], again.get(scenario.name, counts[scenario.name]))


# ---- the record -----------------------------------------------------------------------------------------------------

HEAD = """# What a message costs (docs/design/counts.md); `./dev counts --record` writes this file. A change that makes a count grow changes it in
# the same commit and says why. A line with an end's name is that end's share, and is not compared; nor are numbers with "~".
#
# compiler: %s
#
# scenario                                   instructions    locked  system calls ("clock" asks for the time, which is none)
"""


def number(value):
    return "%g" % round(value, 2 if value < 100 else 0)


def line_of(name, one, scenario):
    about = "~" if scenario.only_calls else ""
    calls = " ".join("%s %s" % (kind, number(count)) for kind, count in sorted(one.calls.items())) or "none"
    return "%-44s %12s %9s  %s" % (name, about + "%.0f" % one.instructions, about + number(one.locked), calls)


def write_record(counts, compiler):
    with open(RECORD, "w", encoding="utf-8") as file:
        file.write(HEAD % compiler)
        for scenario in SCENARIOS:
            for end, one in counts[scenario.name].items():
                file.write(line_of(scenario.name + (":" + end if end else ""), one, scenario) + "\n")


def read_record():
    """The compiler, and counts by name."""
    compiler, counts = "", {}
    with open(RECORD, encoding="utf-8") as file:
        for text in file:
            if text.startswith("# compiler: "):
                compiler = text[12:].strip()
            elif text.strip() and text[0] != "#":
                name, instructions, locked, *calls = text.split()
                kinds = {} if calls == ["none"] else dict(zip(calls[::2], map(float, calls[1::2])))
                counts[name] = Count(float(instructions.strip("~")), float(locked.strip("~")), kinds)
    return compiler, counts


def differences(scenario, now, then, growth):
    """Two lists of text: what has grown, what has shrunk much."""
    pairs = [("system calls", now.system_calls(), then.system_calls(), scenario.growth)]
    if scenario.only_calls:
        pairs += [("calls other than those of waiting", now.calls_that_act(), then.calls_that_act(), GROWTH)]
    else:
        kinds = sorted({**now.calls, **then.calls})
        pairs += [("calls of " + kind, now.calls.get(kind, 0), then.calls.get(kind, 0), GROWTH) for kind in kinds]
        pairs += [("locked operations", now.locked, then.locked, LOCKED_GROWTH),
                  ("instructions", now.instructions, then.instructions, growth)]
    grown, shrunk = [], []
    for what, new, old, margin in pairs:
        text = "%s: %s: %s, the record has %s" % (scenario.name, what, number(new), number(old))
        slack = scenario.slack if what == "system calls" and scenario.only_calls else 0.5 if what == "instructions" else 0.006  # it is rounded
        if new > old * (1 + margin) + slack:
            grown.append(text + (" (+%.1f %%)" % (100 * (new - old) / old) if old else ""))
        elif new < old * (1 - max(SHRINK, margin)) - slack:
            shrunk.append(text)
    return grown, shrunk


def trace_costs(scenario, counts):
    """Text about a trace that costs too much where it has nothing to write, or None."""
    if scenario.traced not in counts or scenario.name not in counts:
        return None
    now, plain = counts[scenario.name][""], counts[scenario.traced][""]
    if now.instructions <= plain.instructions * (1 + TRACED_GROWTH):
        return None
    return "%s: instructions: %s, without a trace %s" % (scenario.name, number(now.instructions), number(plain.instructions))


def plain_costs(scenario, counts):
    """Text about a call for a TCP connection that costs too much with the sockets library loaded, or None."""
    without = scenario.name.replace(LOADED, KERNEL, 1)
    if not scenario.plain or without not in counts or scenario.name not in counts:
        return None
    now, then = counts[scenario.name][""], counts[without][""]
    more, locked = PLAIN_WAIT_MORE if scenario.name.endswith("epoll") else PLAIN_MORE
    if (now.instructions <= then.instructions + more and now.locked <= then.locked + locked
            and now.system_calls() == then.system_calls()):
        return None
    return "%s: %s instructions, %s locked, %s; without the sockets library %s, %s, %s" % (
        scenario.name, number(now.instructions), number(now.locked), now.calls, number(then.instructions), number(then.locked), then.calls)


def print_table(counts, record):
    print("%-36s %24s %20s %20s" % ("per message: now / record / target", "instructions", "locked operations", "system calls"))
    for scenario in SCENARIOS:
        if scenario.name not in counts:
            continue
        now, then = counts[scenario.name][""], record.get(scenario.name)
        rows = [(one.instructions, one.locked, one.system_calls()) if one else (None,) * 3 for one in (now, then)] + [scenario.target]
        cells = [" / ".join("-" if row[i] is None else number(row[i]) for row in rows) for i in range(3)]
        print("%-36s %24s %20s %20s" % (scenario.name, *cells))
        shares = " ".join("%s %.0f" % share for share in now.shares.items())
        calls = " ".join("%s %s" % (kind, number(count)) for kind, count in sorted(now.calls.items()))
        print("    %s%s" % (shares, "; " + calls if calls else ""))
        for end, one in counts[scenario.name].items():
            if end:
                print("    %s end: %.0f instructions, %s locked, %s system calls" % (end, one.instructions, number(one.locked),
                                                                                   number(one.system_calls())))


def allowed(compilers):
    """By how much instructions may differ: of this compiler, and of the record's."""
    if compilers[0] == compilers[1]:
        return GROWTH
    print("counts: the record is of %s, this is %s: instructions may differ by %.0f %%" % (*compilers[::-1], 100 * OTHER_COMPILER))
    return OTHER_COMPILER


def compare(scenarios, counts, record, growth):
    """Prints what differs; whether nothing has grown."""
    grown, shrunk = [], []
    for scenario in scenarios:
        if scenario.name not in counts:
            continue
        grown += [costs for costs in (trace_costs(scenario, counts), plain_costs(scenario, counts)) if costs]
        if scenario.name not in record:
            grown.append(scenario.name + ": is not in the record")
            continue
        more, less = differences(scenario, counts[scenario.name][""], record[scenario.name], growth)
        grown += more
        shrunk += less
    for text in shrunk:
        print("less, the record is old: " + text)
    for text in grown:
        print("GROWN: " + text)
    if grown:
        print("counts: if that is meant, run ./dev counts --record and commit record.txt with the change")
    return not grown


def self_test():
    """The parts that can be wrong without a word: what is a locked operation, and what has grown."""
    locked = ("f0480fc107", "f00fb117", "66f00fc107", "f0830c2400", "8706", "488702", "418706", "8606", "f2f0830c2400")
    plain = ("89c3", "6690", "87c3", "4887c3", "0fb117", "c3", "488b07", "0faef0")
    for code in locked + plain:
        assert is_locked(bytes.fromhex(code) + bytes(16)) == (code in locked), code
    scenario = alone("one", "--op send")
    then = Count(1000, 42, {"sendto": 1})
    for now, grown, shrunk in ((Count(1029, 42, {"sendto": 1}), 0, 0), (Count(1031, 42, {"sendto": 1}), 1, 0),
                               (Count(1000, 43, {"sendto": 1}), 1, 0), (Count(1000, 42, {"sendto": 1.1}), 2, 0),
                               (Count(1000, 42, {"sendto": 1, "futex": 0.02}), 1, 0), (Count(800, 30, {"sendto": 1}), 0, 2)):
        found = differences(scenario, now, then, GROWTH)
        assert [len(texts) for texts in found] == [grown, shrunk], found
    scenario = traced(scenario)
    for instructions, costs in ((1100, False), (1101, True)):
        found = trace_costs(scenario, {"loopback.inproc.one": {"": then}, scenario.name: {"": Count(instructions)}})
        assert (found is not None) == costs, found
    scenario = plain_calls("read")[1]
    for instructions, locked, calls, costs in ((70, 0, 1, False), (71, 0, 1, True), (0, 1, 1, True), (0, 0, 2, True)):
        found = plain_costs(scenario, {KERNEL + "read": {"": Count(18, 0, {"read": 1})},
                                       scenario.name: {"": Count(18 + instructions, locked, {"read": calls})}})
        assert (found is not None) == costs, found
    scenario = procs("two", "--op connect", only_calls=True, slack=A_SLEEP)
    then = Count(1000, 42, {"sendto": 2, "ppoll": 2})
    for calls, grown in (({"sendto": 2, "ppoll": 6}, 0), ({"sendto": 2, "ppoll": 7}, 1), ({"sendto": 2.1, "ppoll": 1}, 1)):
        assert len(differences(scenario, Count(2000, 50, calls), then, GROWTH)[0]) == grown, calls
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--compiler", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--table", action="store_true")
    return parser.parse_args(arguments)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    options = parse(sys.argv[1:])
    if platform.machine() != "x86_64":
        print("counts: skipped: locked operations are found in the code of x86-64 alone, and this is " + platform.machine())
        return SKIPPED
    if shutil.which("valgrind") is None:
        print("counts: skipped: valgrind is not here")
        return SKIPPED
    program = os.path.realpath(options.program)
    compiler = "%s, x86-64, %s" % (options.compiler, " ".join(platform.libc_ver()))
    scenarios = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    counts, failures = count_all(program, scenarios)
    for failure in failures:
        print("FAILED: " + failure)
    if options.record:
        repeat(program, scenarios, counts)
    before, record = read_record() if os.path.exists(RECORD) else (compiler, {})
    if options.table or options.record:
        print_table(counts, record)
    if failures:
        return 1
    if options.record:
        write_record(counts, compiler)
        return 0
    growth = allowed((compiler, before))
    if not options.table:
        confirm(program, scenarios, counts, record, growth)
    return 0 if compare(scenarios, counts, record, growth) or options.table else 1


if __name__ == "__main__":
    sys.exit(main())
