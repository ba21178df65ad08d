#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ran on another system: a row of the table in docs/use/platforms.md.

    system_row.py windows WINE BUILD after ./dev wine [32], from what its programs printed: logs beside the folder BUILD
    system_row.py linked TARGET BIN  after ./dev zig TARGET, whose programs are in BIN

The row is replaced where it differs. Without the table's marks, or if a log does not say what it should, it fails and nothing is changed.
"""
import glob
import os
import re
import subprocess
import sys

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "use", "platforms.md")
NAMES = {"freebsd": "FreeBSD", "netbsd": "NetBSD", "openbsd": "OpenBSD", "macos": "macOS"}
MODES = {"inproc": "in one process", "procs": "between two"}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def only(pattern, texts, what):
    """The groups of the one place where it is."""
    found = [match for text in texts for match in re.finditer(pattern, text, re.M)]
    if len(found) != 1:
        sys.exit("system_row: %s: %d times in the logs" % (what, len(found)))
    return found[0].groups()


def conformance(logs, device, modes=MODES):
    """Of each mode: cases that passed."""
    words = []
    for mode in modes:
        mine = [read(log) for log in logs if "-device-%s-" % device in log and "-mode-%s" % mode in log]
        passed, not_applicable = only(r"^Full Conformance: \d+ cases, (\d+) passed, 0 failed, (\d+) not applicable,", mine,
                                      "%s, %s" % (device, mode))
        words.append("%s cases (%s do not apply) %s" % (passed, not_applicable, MODES[mode]))
    return ", ".join(words)


def windows(wine, build):
    logs = glob.glob(build + "-vipl-windows-tests.log") + glob.glob(build + "-vipl-conformance---device-*---mode-inproc.log") + \
        glob.glob(build + "-vipl-conformance---device-*---mode-procs.log")
    cases, = only(r"^All tests passed \(\d+ assertions in (\d+) test cases\)", [read(log) for log in logs], "the tests of the system layer")
    version = subprocess.run([wine, "--version"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.split()[0]
    cpu = only(r"^VIPL_MINGW_CPU:\w+=(\w+)$", [read(os.path.join(build, "CMakeCache.txt"))], "the CPU")[0]
    return ["Windows, %s, under Wine %s" % (cpu, version.replace("wine-", "")), "library, tools, examples", cases + " cases",
            conformance(logs, "loopback"), conformance(logs, "tcp"), conformance(logs, "rnic-inproc", ["inproc"])]


def linked(target, programs):
    cpu, system = target.split("-")
    there = os.listdir(programs)
    parts = ["library"] + [what for what, one in (("tools", "vipl-ping"), ("examples", "vipl-example-hello")) if one in there]
    return ["%s, %s" % (NAMES[system], cpu), ", ".join(parts), "not run", "not run", "not run", "not built"]


def put(row):
    text = read(DOCUMENT)
    parts = re.fullmatch(r"(.*<!-- systems -->\n(?:\|[^\n]*\n){2})((?:\|[^\n]*\n)*)(\n.*)", text, re.S)
    if parts is None:
        sys.exit("system_row: %s has no table of systems" % os.path.relpath(DOCUMENT))
    before, rows, after = parts.groups()
    of_name = {line.split("|")[1].split(" under ")[0].strip(" ,"): line for line in rows.splitlines(True)}
    of_name[row[0].split(" under ")[0].strip(" ,")] = "| %s |\n" % " | ".join(row)
    new = before + "".join(line for _, line in sorted(of_name.items())) + after
    if new != text:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(new)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "windows":
        put(windows(*sys.argv[2:]))
    elif len(sys.argv) == 4 and sys.argv[1] == "linked":
        put(linked(*sys.argv[2:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
