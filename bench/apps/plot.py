# SPDX-License-Identifier: MIT
"""Draws the plot of the section "Programs" from its own table, by matplotlib: requests per second beside TCP's.

    plot.py PAGE
"""
import os
import sys

import matplotlib
from matplotlib import pyplot

import report
import section

COLOURS = {"Unix": "#1060c0", "VIPL": "#c00020"}


def table_of(page):
    """[(program, {way: median})] of the section's first table."""
    rows = [[cell.strip(" *") for cell in line.strip("| ").split(" | ")] for line in section.section_of(page).split("![")[0].splitlines()
            if line.startswith("| ")]
    for row in rows[1:]:
        figures = {way: cell.split()[0].replace(",", "") for way, cell in zip(("TCP", "Unix", "VIPL"), row[1:4])}
        yield row[0], {way: float(figure) for way, figure in figures.items() if figure != "-"}


def draw(rows, path):
    rows = [row for row in rows if "TCP" in row[1]]
    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(rows) + 1.2), layout="constrained")
    for place, way in ((0.2, "Unix"), (-0.2, "VIPL")):
        bars = [(number, figures[way] / figures["TCP"]) for number, (_, figures) in enumerate(reversed(rows)) if way in figures]
        axes.barh([number + place for number, _ in bars], [height for _, height in bars], 0.36, label=way, color=COLOURS[way])
    axes.axvline(1, color="#777777", linestyle="--", label="TCP")
    axes.set_yticks(range(len(rows)), [title for title, _ in reversed(rows)])
    axes.set_xlabel("beside TCP")
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(section.TITLE, loc="left", fontsize=11)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Title": section.TITLE, "Date": None, "Creator": None})
    pyplot.close(figure)


def main(page):
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "vipl", "svg.fonttype": "path"})  # the same picture from the same figures
    with open(page, encoding="utf-8") as file:
        draw(list(table_of(file.read())), os.path.join(os.path.dirname(page), report.IMAGE))


if __name__ == "__main__":
    main(sys.argv[1])
