# SPDX-License-Identifier: MIT
"""The report from the raw rows: a table of medians over rounds, what ours are beside the limit and beside the best peer, and where plot.py draws."""
import os
import statistics
import sys
import textwrap

import scale
from tables import BESIDE, LIMIT, TABLES, size_text

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "apps"))
from section import section_of  # noqa: E402

PLOTTED = ("latency-loopback", "bandwidth-loopback", "latency-tcp", "bandwidth-tcp")

HEAD = """# Performance

`./dev bench` writes this file, and the plots, from what it has just measured; do not edit it.
%s

Each cell is the median over the rounds of a contender's own p50 (of its mean, where that is said, and of bandwidths and
rates), with the least and the largest round. In a round one contender runs after the other, server and client on a CPU
each, so ratios hold where absolute figures do not: a machine's minute is in all of them. A ratio of latencies is best
small, one of bandwidths and rates best large. *Beside the limit*: what the same machine did without any library in the
same run. *Beside the best peer*: the best of the others in this table; for RDMA write, of their "put", which goes to
memory that both processes have mapped; that is comparable with VIPL's shared memory (`VipxAllocShared()`), not with
memory of a program's heap. A send from shared memory is shown beside the peers' sends, which come from a heap: they
know no other.

What a message costs in instructions, locked operations and system calls does not depend on the machine: see
[counts](../design/counts.md).
"""


class Figures:
    """Of one table: {(name, size): [figure of each round]}."""

    def __init__(self, table, rows):
        self.table, self.all = table, {}
        for row in rows:
            if row["table"] == table.key and row["figure"] is not None:
                self.all.setdefault((row["name"], row["size"]), []).append(row["figure"])
        self.sizes = sorted({size for _, size in self.all})
        self.names = [(name, kind) for name, kind in table.names() if any((name, size) in self.all for size in self.sizes)]

    def median(self, name, size):
        found = self.all.get((name, size))
        return statistics.median(found) if found else None

    def best(self, kind, size):
        found = [self.median(name, size) for name, each in self.names if each == kind and (name, size) in self.all]
        if not found:
            return None
        return min(found) if self.table.kind == "lat" else max(found)


def number(value):
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value if value >= 1 else "%.3f" % value


def cell(found):
    return "%s (%s-%s)" % (number(statistics.median(found)), number(min(found)), number(max(found))) if found else "-"


def ratio(a, b):
    return "-" if a is None or b is None else "%.2f" % (a / b)


def show(figures):
    lines = ["", "## %s" % figures.table.title, "", "| | %s |" % " | ".join(size_text(size) + " B" for size in figures.sizes),
             "|---|" + "---|" * len(figures.sizes)]
    for name, kind in figures.names:
        cells = [cell(figures.all.get((name, size))) for size in figures.sizes]
        lines.append("| %s | %s |" % ("**%s**" % name if kind in BESIDE else name, " | ".join(cells)))
    for name, kind in figures.names:
        if kind not in BESIDE:
            continue
        for beside, title in ((LIMIT, "beside the limit"), (BESIDE[kind], "beside the best peer")):
            ratios = [ratio(figures.median(name, size), figures.best(beside, size)) for size in figures.sizes]
            if any(each != "-" for each in ratios):
                lines.append("| *%s, %s* | %s |" % (name, title, " | ".join(ratios)))
    return lines


def write(rows, facts, folder):
    """The page; the section of bench/apps, which is measured by itself, stays as it is."""
    path = os.path.join(folder, "performance.md")
    programs = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            programs = section_of(file.read())
    lines = [HEAD % facts["text"]]
    for table in TABLES:
        figures = Figures(table, rows)
        if not figures.sizes:
            continue
        lines += show(figures)
        if table.key in PLOTTED and len(figures.sizes) > 1:
            lines += ["", "![%s](performance-%s.svg)" % (table.title, table.key)]
    if facts.get("scale"):
        lines += scale.show(facts["scale"])
    if programs:
        lines += ["", programs.rstrip("\n")]
    lines += ["", "## Notes", ""]
    for text in facts["notes"]:
        lines += textwrap.wrap("- " + text, 120, subsequent_indent="  ", break_on_hyphens=False)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
