# SPDX-License-Identifier: MIT
"""What vipl-run --stats prints when a process ends, on its standard error:

    vipl-run: PROGRAM[PID]: moved N, plain N, failed N
    vipl-run:   N plain: REASON

The second line is there once for each reason.
"""
import re

COUNTS = re.compile(r"^vipl-run: (\S+)\[(\d+)\]: moved (\d+), plain (\d+), failed (\d+)$", re.M)
REASON = re.compile(r"^vipl-run: +(\d+) plain: (.+)$", re.M)


class Statistics:
    def __init__(self):
        self.processes = self.moved = self.plain = self.failed = 0
        self.reasons = {}

    def __str__(self):
        reasons = "".join("; %d plain: %s" % (count, reason) for reason, count in sorted(self.reasons.items()))
        return "moved %d, plain %d, failed %d of %d processes%s" % (self.moved, self.plain, self.failed, self.processes, reasons)


def parse(text):
    """Of one process, or of several that share their standard error."""
    found = Statistics()
    for _, _, moved, plain, failed in COUNTS.findall(text):
        found.processes += 1
        found.moved += int(moved)
        found.plain += int(plain)
        found.failed += int(failed)
    for count, reason in REASON.findall(text):
        found.reasons[reason] = found.reasons.get(reason, 0) + int(count)
    return found


def added(several):
    whole = Statistics()
    for each in several:
        for name in ("processes", "moved", "plain", "failed"):
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        for reason, count in each.reasons.items():
            whole.reasons[reason] = whole.reasons.get(reason, 0) + count
    return whole
