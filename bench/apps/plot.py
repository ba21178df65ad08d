# SPDX-License-Identifier: MIT
"""Draws the plots of the section "Programs" from its own tables, by matplotlib: requests per second beside TCP's, and the time of an ORB's calls
beside TCP's.

    plot.py PAGE
"""
import os
import re
import sys

import matplotlib
from matplotlib import pyplot

import section

COLOURS = {"Unix": "#1060c0", "VIPL": "#c00020", "VIPL, polling": "#f08020"}


def tables_of(page):
    """(title, file, [(row's name, {way: median})]) of each image of the section, from the table above it."""
    parts = re.split(r"^!\[(.*)\]\((.*)\)$", section.section_of(page), flags=re.M)
    for text, title, file in zip(parts[::3], parts[1::3], parts[2::3]):
        head, _, *rows = [[cell.strip(" *") for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]
        columns = {way: head.index(way) for way in ("TCP", *COLOURS) if way in head}
        figures = [(row[0], {way: row[column].split()[0].replace(",", "") for way, column in columns.items()}) for row in rows]
        yield title, file, [(name, {way: float(figure) for way, figure in one.items() if figure != "-"}) for name, one in figures]


def draw(title, rows, path):
    rows = [row for row in rows if "TCP" in row[1]]
    ways = [way for way in COLOURS if any(way in figures for _, figures in rows)]
    width = 0.8 / len(ways)
    figure, axes = pyplot.subplots(figsize=(9, (0.2 + 0.16 * len(ways)) * len(rows) + 1.2), layout="constrained")
    for index, way in enumerate(ways):
        place = ((len(ways) - 1) / 2 - index) * width
        bars = [(number, figures[way] / figures["TCP"]) for number, (_, figures) in enumerate(reversed(rows)) if way in figures]
        axes.barh([number + place for number, _ in bars], [height for _, height in bars], 0.9 * width, label=way, color=COLOURS[way])
    axes.axvline(1, color="#777777", linestyle="--", label="TCP")
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)])
    axes.set_xlabel("beside TCP")
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Title": title, "Date": None, "Creator": None})
    pyplot.close(figure)


def main(page):
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "vipl", "svg.fonttype": "path"})  # the same picture from the same figures
    with open(page, encoding="utf-8") as file:
        for title, image, rows in tables_of(file.read()):
            draw(title, rows, os.path.join(os.path.dirname(page), image))


if __name__ == "__main__":
    main(sys.argv[1])
