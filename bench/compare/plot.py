# SPDX-License-Identifier: MIT
"""Draws the plots of a report from its own tables, by matplotlib: each image of the page shows the medians of the table above it.

    plot.py PAGE

Glyphs are written as outlines, so that a picture looks alike whatever fonts its reader has; tests/package/style/plots.py checks that all of them
lie in the picture.
"""
import os
import re
import sys

import matplotlib
from matplotlib import pyplot, ticker

from tables import BESIDE, LIMIT, OUR_PUT, OURS, PEER, PUT, TABLES, size_text

COLOURS = {LIMIT: ("#777777", "#b0b0b0"), OURS: ("#c00020", "#600010"), OUR_PUT: ("#f08020", "#d0a000"),
           PEER: ("#1060c0", "#108040", "#8040a0", "#807020"), PUT: ("#30a0e0",)}
MARKERS = "osD^vPX*"
UNITS = {"K": 1 << 10, "M": 1 << 20}


def bytes_of(text):
    """"8 B", "64K B": the head of a column."""
    number, unit = re.fullmatch(r"(\d+)([KM]?) B", text).groups()
    return int(number) * UNITS.get(unit, 1)


def tables_of(page):
    """(title, file, [(name, {size: median})]) of each image. Rows in italics are ratios; "-" is no figure."""
    for part in page.split("\n## ")[1:]:
        image = re.search(r"^!\[(.*)\]\((.*)\)$", part, re.M)
        if image is None or image.group(1) not in [table.title for table in TABLES]:  # bench/apps draws its own
            continue
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in part.splitlines() if line.startswith("|")]
        sizes = [bytes_of(cell) for cell in rows[0]]
        lines = []
        for row in rows[2:]:
            name = row[0].strip("*")
            if not row[0].startswith("*") or row[0].startswith("**"):
                lines.append((name, {size: float(cell.split()[0]) for size, cell in zip(sizes, row[1:]) if cell != "-"}))
        yield image.group(1), image.group(2), lines


def draw(title, lines, path):
    kinds = {name: kind for table in TABLES if table.title == title for name, kind in table.names()}
    figure, axes = pyplot.subplots(figsize=(9, 4.8), layout="constrained")
    used = dict.fromkeys(COLOURS, 0)
    for (name, figures), marker in zip(lines, MARKERS * 2):
        kind = kinds[name]
        colour = COLOURS[kind][used[kind] % len(COLOURS[kind])]
        used[kind] += 1
        axes.plot(list(figures), list(figures.values()), label=name, color=colour, marker=marker, markersize=4.5,
                  linewidth=2.4 if kind in BESIDE else 1.4, linestyle="--" if kind == LIMIT else "-")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({size for _, figures in lines for size in figures}))
    axes.xaxis.set_major_formatter(lambda size, _: size_text(size))
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.grid(color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("bytes")
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.savefig(path, metadata={"Title": title, "Date": None, "Creator": None})
    pyplot.close(figure)


def main(page):
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "vipl", "svg.fonttype": "path"})  # the same picture from the same figures
    with open(page, encoding="utf-8") as file:
        for title, name, lines in tables_of(file.read()):
            draw(title, lines, os.path.join(os.path.dirname(page), name))


if __name__ == "__main__":
    main(sys.argv[1])
