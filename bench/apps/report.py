# SPDX-License-Identifier: MIT
"""The section "Programs" of docs/use/performance.md, from the raw rows: medians over rounds."""
import statistics
import textwrap

from section import TITLE

IMAGE, CALLS_IMAGE = "performance-programs.svg", "performance-calls.svg"
FIRST, SECOND, VIPL, POLLING, CLIENT, SERVER = "TCP", "Unix", "VIPL", "VIPL, polling", "client alone", "server alone"
MEASURED = (FIRST, SECOND, VIPL, POLLING)

HEAD = """## %s

%s

Programs of Debian, unmodified: over TCP, over Unix sockets, and both ends under `vipl-run`
([sockets.md](sockets.md)). Each cell is the median over the rounds, with the least and the largest round; in a round
one way is measured after the other, with the same servers. The time is the 99th percentile of a request's, as the
client program tells it, in microseconds. The programs choose their CPUs. *polling*: an end polls for up to 50 us before
it sleeps, by `VIPL_SPIN_US=50`.
"""

# A request's time beside TCP's: figures of the paper that VIPL for UNIX comes from (an ORB on SPARC/Solaris and a SAN, us).
PAPER = (("ORB, null call", 661, 539), ("ORB, 1,024 B", 725, 645))
CALLS_BESIDE_PAPER = ("null", "echo 1,024 B")
CALLS_TITLE = "Calls of omniORB: time"
CALLS_HEAD = """
Calls of omniORB, whose transport for VIPL is a plug-in ([corba.md](corba.md)). Each cell is the median over the rounds
of a round's median, and of its 99th percentile, in microseconds; in a round each way has a server and a client of its
own. Both ends sleep while they wait; *polling*: an end polls for up to 50 us before it sleeps, which is what the
plug-in does unless `VIPL_SPIN_US` says 0.
"""
BESIDE_PAPER = ("redis GET, 1 client", "pgbench -S prepared, 1 client", "memcached get, 1 connection")


class Figures:
    def __init__(self, rows):
        self.rows = [row for row in rows if "program" in row]
        self.calls = [row for row in rows if "call" in row]
        self.titles = list(dict.fromkeys(row["program"] for row in self.rows))

    def all(self, title, way, what="rate"):
        return [row[what] for row in self.rows if row["program"] == title and row["way"] == way and row.get(what)]

    def median(self, title, way, what="rate"):
        found = self.all(title, way, what)
        return statistics.median(found) if found else None

    def of_call(self, call, way, what="median"):
        """Of an ORB's call: the median over the rounds; None: there is none."""
        found = [row[what] for row in self.calls if row["call"] == call and row["way"] == way and what in row]
        return statistics.median(found) if found else None

    def has(self, way):
        return any(row["way"] == way and "rate" in row for row in self.rows)


def number(value):
    return "-" if value is None else "{:,.0f}".format(value)


def cell(found):
    return "%s (%s-%s)" % (number(statistics.median(found)), number(min(found)), number(max(found))) if found else "-"


def ratio(a, b):
    return "-" if a is None or b is None else "%.2f" % (a / b)


def rates(figures):
    lines = ["| | TCP | Unix | **VIPL** | **VIPL, polling** | beside Unix | polling | beside TCP | polling | p99, us: TCP | Unix | VIPL | polling |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for title in figures.titles:
        medians = [figures.median(title, way) for way in MEASURED]
        cells = [cell(figures.all(title, way)) for way in MEASURED]
        cells += [ratio(ours, other) for other in (medians[1], medians[0]) for ours in medians[2:]]
        cells += [number(figures.median(title, way, "p99")) for way in MEASURED]
        lines.append("| %s | %s |" % (title, " | ".join(cells)))
    return lines


def orb_calls(figures):
    lines = [CALLS_HEAD, "| us: median / p99 | TCP | Unix | **VIPL** | **VIPL, polling** | beside TCP | polling |", "|---|---|---|---|---|---|---|"]
    for call in dict.fromkeys(row["call"] for row in figures.calls):
        medians = [figures.of_call(call, way) for way in MEASURED]
        cells = ["-" if median is None else "%.1f / %.1f" % (median, figures.of_call(call, way, "p99")) for way, median in zip(MEASURED, medians)]
        cells += [ratio(median, medians[0]) for median in medians[2:]]
        lines.append("| %s | %s |" % (call, " | ".join(cells)))
    return lines + ["", "![%s](%s)" % (CALLS_TITLE, CALLS_IMAGE)]


def without_peer(figures):
    lines = ["", "One end under `vipl-run`, while the other is a plain program: the connections stay TCP.", "",
             "| | TCP | client under vipl-run | server under vipl-run | beside TCP: client | server |", "|---|---|---|---|---|---|"]
    for title in figures.titles:
        plain, client, server = (figures.median(title, way) for way in (FIRST, CLIENT, SERVER))
        if client is None and server is None:
            continue
        cells = [cell(figures.all(title, way)) for way in (FIRST, CLIENT, SERVER)] + ["%s" % ratio(client, plain), "%s" % ratio(server, plain)]
        lines.append("| %s | %s |" % (title, " | ".join(cells)))
    return lines


def beside_paper(figures):
    lines = ["", "A request's time beside TCP's, with one client that waits for each reply, and the paper's: an ORB over a SAN.", "",
             "| | TCP, us | VIPL, us | VIPL beside TCP |", "|---|---|---|---|"]
    for title, tcp, vipl in PAPER:
        lines.append("| *the paper: %s* | %d | %d | %.2f |" % (title, tcp, vipl, vipl / tcp))
    for call in CALLS_BESIDE_PAPER:
        tcp, vipl = figures.of_call(call, FIRST), figures.of_call(call, VIPL)
        if tcp and vipl:
            lines.append("| omniORB, %s | %.1f | %.1f | %.2f |" % (call, tcp, vipl, vipl / tcp))
    for title in BESIDE_PAPER:
        tcp, vipl = figures.median(title, FIRST), figures.median(title, VIPL)
        if tcp and vipl:
            lines.append("| %s | %.1f | %.1f | %.2f |" % (title, 1e6 / tcp, 1e6 / vipl, tcp / vipl))
    return lines


def notes(figures):
    """What a reader must know of single cells: connections that were not moved, and figures that are missing."""
    lines = []
    for row in figures.rows:
        if row["way"] in (VIPL, POLLING) and (row.get("moved") == 0 or row.get("plain", 0) > 0):
            reasons = "; ".join("%d %s" % (count, reason) for reason, count in row.get("reasons", {}).items())
            lines.append("- %s, %s, round %d: %d connections moved, %d not: %s" % (row["program"], row["way"], row["round"] + 1, row["moved"], row["plain"], reasons))
    for row in figures.rows + figures.calls:
        if "failed" in row:
            what = row["program"] if "program" in row else "omniORB, " + row["call"]
            lines.append("- %s, %s, round %d gave no figure: %s" % (what, row["way"], row["round"] + 1, row["failed"]))
    return [""] + [textwrap.fill(line, 120, subsequent_indent="  ") for line in lines] if lines else []


def section_text(rows, facts):
    figures = Figures(rows)
    made = "`./dev bench --apps` writes this section. %s Load of the machine before and after: %.1f, %.1f." % (facts["text"], *facts["load"])
    lines = [HEAD % (TITLE, textwrap.fill(made, 120))] + rates(figures)
    if figures.has(VIPL):
        lines += ["", "![%s](%s)" % (TITLE, IMAGE)]
    if figures.calls:
        lines += orb_calls(figures)
    if figures.has(CLIENT) or figures.has(SERVER):
        lines += without_peer(figures)
    if figures.has(VIPL):
        lines += beside_paper(figures)
    return "\n".join(lines + notes(figures)) + "\n"
