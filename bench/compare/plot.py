# SPDX-License-Identifier: MIT
"""A plot of a table over sizes, with logarithmic axes, as SVG."""
import math

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 230, 40, 50
COLOURS = {"limit": ("#888888", "#bbbbbb"), "ours": ("#c00020", "#600010"),
           "our put": ("#f08020", "#f0c040"),
           "peer": ("#1060c0", "#108040", "#8040a0", "#807020"), "put": ("#30a0e0",)}


def size_text(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return "%g%s" % (size / unit, name)
    return str(size)


class Axis:
    def __init__(self, values, low, high):
        self.first, self.last = math.log(min(values)), math.log(max(values))
        self.low, self.high = low, high

    def at(self, value):
        part = (math.log(value) - self.first) / ((self.last - self.first) or 1)
        return self.low + part * (self.high - self.low)


def steps(values):
    """1, 2 and 5 times powers of ten, as far as the values go."""
    exponent = math.floor(math.log10(min(values)))
    return [step * 10.0 ** e for e in range(exponent, math.ceil(math.log10(max(values))) + 1) for step in (1, 2, 5)
            if min(values) <= step * 10.0 ** e <= max(values)]


def plot(title, lines):
    """`lines` is [(name, kind, {size: figure})]."""
    sizes = sorted({size for _, _, figures in lines for size in figures})
    values = [figure for _, _, figures in lines for figure in figures.values()]
    x, y = Axis(sizes, LEFT, WIDTH - RIGHT), Axis(values, HEIGHT - BOTTOM, TOP)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">' % (WIDTH, HEIGHT),
           '<rect width="%d" height="%d" fill="white"/>' % (WIDTH, HEIGHT),
           '<text x="%d" y="22" font-size="14">%s</text>' % (LEFT, title)]
    for size in sizes:
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e4e4e4"/>' % (x.at(size), TOP, x.at(size), HEIGHT - BOTTOM))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x.at(size), HEIGHT - BOTTOM + 18, size_text(size)))
    for value in steps(values):
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e4e4e4"/>' % (LEFT, y.at(value), WIDTH - RIGHT, y.at(value)))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%g</text>' % (LEFT - 6, y.at(value) + 4, value))
    out.append('<text x="%d" y="%d" text-anchor="middle">bytes</text>' % ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10))
    used = dict.fromkeys(COLOURS, 0)
    for row, (name, kind, figures) in enumerate(lines):
        colour = COLOURS[kind][used[kind] % len(COLOURS[kind])]
        used[kind] += 1
        dash = ' stroke-dasharray="5 4"' if kind == "limit" else ""
        points = " ".join("%.1f,%.1f" % (x.at(size), y.at(figures[size])) for size in sorted(figures))
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>' % (points, colour, dash))
        out += ['<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>' % (x.at(size), y.at(figures[size]), colour) for size in figures]
        at = TOP + 10 + 18 * row
        out.append('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2"%s/>' % (
            WIDTH - RIGHT + 12, at, WIDTH - RIGHT + 36, at, colour, dash))
        out.append('<text x="%d" y="%d">%s</text>' % (WIDTH - RIGHT + 42, at + 4, name))
    return "\n".join(out + ["</svg>", ""])
