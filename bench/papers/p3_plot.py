#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the hits of the registration cache over its limit, from the table of the page that names the picture, by matplotlib.

    p3_plot.py docs/use/mpi.md

Glyphs are written as outlines, as those of bench/compare/plot.py; tests/package/style/plots.py checks that all of them lie in the picture.
"""
import os
import re
import sys

import matplotlib
from matplotlib import pyplot

NAME = "mpi-hits.svg"
TITLE = "Look-ups of the registration cache that are hits, %"


def table_of(page):
    """(limits in MiB, {program: hits}) of the first table before the picture."""
    before = page[:page.index("](%s)" % NAME)]
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in before.splitlines() if line.startswith("|")]
    first = max(at for at, row in enumerate(rows) if "1 MiB" in row)
    limits = {at: int(head.split()[0]) for at, head in enumerate(rows[first]) if re.fullmatch(r"\d+ MiB", head)}
    return list(limits.values()), {row[0]: [float(row[at]) for at in limits] for row in rows[first + 2:] if len(row) == len(rows[first])}


def main(path):
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "vipl", "svg.fonttype": "path"})  # the same picture from the same figures
    with open(path, encoding="utf-8") as file:
        limits, programs = table_of(file.read())
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for (name, hits), marker, colour in zip(programs.items(), "osD^", ("#c00020", "#1060c0", "#108040", "#8040a0")):
        axes.plot(limits, hits, marker=marker, color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(limits, ["%d MiB" % mib for mib in limits])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.grid(color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("VIPL_CACHE_MIB")
    axes.set_title(TITLE, loc="left", fontsize=11)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.savefig(os.path.join(os.path.dirname(path), NAME), metadata={"Title": TITLE, "Date": None, "Creator": None})


if __name__ == "__main__":
    main(sys.argv[1])
