#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same program gets the same answers on each device: compares the results of vipl-conformance on two of them.

    devices.py LOOPBACK.xml,TCP.xml...   (what vipl-conformance --junit wrote, in pairs)

Prints one table: how many cases had which outcome, where they differ, and why they may (devices.txt).
"""
import collections
import fnmatch
import os
import sys
import xml.etree.ElementTree

ALLOWED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "devices.txt")


def allowed():
    """(pattern, loopback, tcp, reason) of each line."""
    with open(ALLOWED, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                yield tuple(field.strip() for field in line.split("|", 3))


def outcomes(file):
    """function: name -> outcome"""
    found = {}
    for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
        name = "%s: %s" % (case.get("classname").split(".", 1)[1], case.get("name"))
        found[name] = "failed" if case.find("failure") is not None else "skipped" if case.find("skipped") is not None else "passed"
    return found


def literal(pattern):
    """Names have brackets; only * is special."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def compare(pairs):
    rules = list(allowed())
    used, table, wrong = set(), collections.Counter(), 0
    for pair in pairs:
        loopback, tcp = (outcomes(file) for file in pair.split(","))
        for name in sorted(set(loopback) | set(tcp)):
            both = loopback.get(name, "absent"), tcp.get(name, "absent")
            table[both] += 1
            if both[0] == both[1] and both[0] != "failed":
                continue
            matching = [rule for rule in rules if rule[1:3] == both and fnmatch.fnmatchcase(name, literal(rule[0]))]
            used.update(matching)
            if not matching:
                wrong += 1
            print("%s%s: loopback %s, tcp %s%s" % ("" if matching else "WRONG: ", name, *both,
                                                   " (%s)" % matching[0][3] if matching else ""))
    print("\n%-10s %-10s %6s" % ("loopback", "tcp", "cases"))
    for both, count in sorted(table.items()):
        print("%-10s %-10s %6d" % (*both, count))
    for rule in rules:
        if rule not in used:
            wrong += 1
            print("WRONG: no case needs the line: %s" % " | ".join(rule))
    return wrong


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if compare(sys.argv[1:]) else 0)
