#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""P3.9: which region should the registration cache end when it is full? The programs of p3_hits.py, under several policies.

    p3_policies.py BUILD [--device NAME] [--ranks N] [--only PROGRAM]

Each program runs once, with room for all of its regions and a trace of what it asks of the cache (p3_trace.c). The caches of other sizes and
policies are computed from that: a call whose region had lost its memory misses in each of them. When memory goes is not in the trace, so a computed
cache has such a region until it is asked for. Policies: the least recently used idle region is ended (what the library does), the oldest, any, and,
with the future known, the one that takes most bytes for the longest time until it is asked for again, which shows what there is to gain. A row has
hits in per cent of the look-ups, of all ranks. The row "measured" is the library itself at that limit, in runs of their own: how far it is from the
first policy says how much the computing is worth.
"""
import bisect
import os
import random
import sys
import tempfile

from p3_hits import chosen_programs, lookups, run

PAGE = 4096
LIMITS = [1, 2, 4, 16]  # MiB
ROOM_FOR_ALL = 1 << 20  # MiB
MOST_REGIONS = 1024     # the default of VIPL_CACHE_REGIONS
NEVER = float("inf")


class Call:
    """One VipxAcquireMem() that may be cached; its region is of whole pages unless the peer may access it."""

    def __init__(self, first, length, rights, hit, entry):
        self.first, self.end, self.rights, self.was_hit, self.entry = first, first + length, rights, hit, entry
        self.region = (first, first + length) if rights else (first // PAGE * PAGE, -(-(first + length) // PAGE) * PAGE)


def read_trace(path):
    """Calls, and releases as the handles of their entries, in order."""
    trace = []
    with open(path, encoding="ascii") as file:
        for line in file:
            word = line.split()
            if word[0] == "r":
                trace.append(word[1])
            elif word[4] == "0":  # not VIPX_ONCE
                trace.append(Call(int(word[1], 16), int(word[2]), int(word[3]), word[5] == "1", word[6]))
    return trace


class Region:
    def __init__(self, call, now):
        self.first, self.end = call.region
        self.rights, self.users, self.made, self.used = call.rights, 0, now, now

    def serves(self, call):
        return self.first <= call.first and call.end <= self.end and self.rights & call.rights == call.rights

    def bytes(self):
        return self.end - self.first


class Future:
    """When a region is asked for next."""

    def __init__(self, trace):
        self.trace = trace
        self.calls = {}  # (first, end, rights): the positions in the trace
        for at, call in enumerate(trace):
            if isinstance(call, Call):
                self.calls.setdefault((call.first, call.end, call.rights), []).append(at)
        self.served = {}

    def next_use(self, region, now):
        key = (region.first, region.end, region.rights)
        if key not in self.served:
            self.served[key] = [at for (first, end, rights), at in self.calls.items()
                                if region.first <= first and end <= region.end and region.rights & rights == rights]
        found = NEVER
        for positions in self.served[key]:
            index = bisect.bisect_right(positions, now)
            found = min(found, positions[index] if index < len(positions) else NEVER)
        return found if found == NEVER or self.trace[found].was_hit else NEVER  # its memory is gone by then


POLICIES = {
    "least recently used": lambda idle, now, future: min(idle, key=lambda region: region.used),
    "oldest": lambda idle, now, future: min(idle, key=lambda region: region.made),
    "any": lambda idle, now, future: random.choice(idle),
    "the future known": lambda idle, now, future: max(idle, key=lambda region: (future.next_use(region, now) - now) * region.bytes()),
}


class Cache:
    """A cache of so many bytes, fed with a trace."""

    def __init__(self, most, choose, future):
        self.most, self.choose, self.future = most, choose, future
        self.regions, self.holders, self.hits = [], {}, 0

    def release(self, entry, now):
        users = self.holders.get(entry, [])
        if users:
            region = users.pop()
            region.users -= 1
            region.used = now

    def is_full(self, regions, bytes_wanted):
        return len(regions) >= MOST_REGIONS or sum(region.bytes() for region in regions) + bytes_wanted > self.most

    def make_room(self, bytes_wanted, now):
        """Ends no region if those in use leave no room."""
        if self.is_full([region for region in self.regions if region.users > 0], bytes_wanted):
            return False
        while self.is_full(self.regions, bytes_wanted):
            idle = [region for region in self.regions if region.users == 0]
            self.regions.remove(self.choose(idle, now, self.future))
        return True

    def acquire(self, call, now):
        found = [region for region in self.regions if region.serves(call)]
        if not call.was_hit:  # its memory had gone
            self.regions = [region for region in self.regions if region not in found]
            found = []
        region = found[0] if found else Region(call, now)
        self.hits += 1 if found else 0
        if not found and self.make_room(region.bytes(), now):
            self.regions.append(region)
        region.users += 1
        region.used = now
        self.holders.setdefault(call.entry, []).append(region)


def simulate(trace, mib, policy, future):
    random.seed(1)
    cache = Cache(mib << 20, POLICIES[policy], future)
    for now, one in enumerate(trace):
        if isinstance(one, Call):
            cache.acquire(one, now)
        else:
            cache.release(one, now)
    return cache.hits


def all_hits(traces, mib, policy):
    return sum(simulate(trace, mib, policy, future) for trace, future in traces)


def take_traces(build, device, ranks, program):
    """The trace of each rank with its future, and the number of look-ups. A computed cache with room for all must have the library's hits."""
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        library = os.path.join(os.path.abspath(build), "lib", "libvipl-p3-trace.so")
        total = run(build, device, ranks, program, {"LD_PRELOAD": library, "VIPL_P3_TRACE": folder})
        traces = [(trace, Future(trace)) for trace in (read_trace(os.path.join(folder, file)) for file in sorted(os.listdir(folder)))]
    calls = sum(isinstance(one, Call) for trace, _ in traces for one in trace)
    hits = all_hits(traces, ROOM_FOR_ALL, "least recently used")
    if (calls, hits, 0) != (lookups(total), total["hits"], total["full"]):
        sys.exit("the trace has %d look-ups and %d hits, and the library says %s" % (calls, hits, total))
    return traces, calls


def table(build, device, ranks, name, program):
    traces, calls = take_traces(build, device, ranks, program)
    measured = [run(build, device, ranks, program, {"VIPL_CACHE_MIB": str(mib)}) for mib in LIMITS]
    print("\nP3.9 %s: hits, %% of %d look-ups" % (name, calls))
    print("  %-24s" % "" + "".join("%12d MiB" % mib for mib in LIMITS))
    print("  %-24s" % "measured" + "".join("%16.2f" % (100 * total["hits"] / max(1, lookups(total))) for total in measured))
    for policy in POLICIES:
        hits = [all_hits(traces, mib, policy) for mib in LIMITS]
        print("  %-24s" % policy + "".join("%16.2f" % (100 * hit / max(1, calls)) for hit in hits), flush=True)


def main():
    arguments, chosen = chosen_programs(__doc__.splitlines()[0])
    for name, program in chosen.items():
        table(arguments.build, arguments.device, arguments.ranks, name, program)


if __name__ == "__main__":
    main()
