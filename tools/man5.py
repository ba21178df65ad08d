#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the manual page vipl.conf(5) from the table of docs/use/settings.md.

    man5.py docs/use/settings.md FILE
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from man3 import DATE, roff  # noqa: E402

HEAD = """.\\" SPDX-License-Identifier: MIT
.\\" Written by tools/man5.py from docs/use/settings.md.
.Dd %s
.Dt VIPL.CONF 5
.Os
.Sh NAME
.Nm vipl.conf
.Nd settings of the Virtual Interface Provider Library
.Sh DESCRIPTION
Every setting is an environment variable.
A variable that is not set is looked up in the file that
.Ev VIPL_CONFIG
names, or in
.Pa /etc/vipl.conf .
It has lines
.Pp
.Dl NAME = value
.Pp
where # starts a comment.
Settings are read when a NIC handle is opened.
What is wrong with them is named on standard error, once in a process, and the default is used.
.Bl -tag -width Ds"""
TAIL = """.El
.Sh FILES
.Pa /etc/vipl.conf
.Sh EXAMPLES
.Bd -literal -offset indent
# the old program's card is this interface
VIPL_DEVICE_ALIASES = /dev/clanvi0=tcp:eth0
VIPL_LOG = reason
.Ed
.Sh SEE ALSO
.Xr vipl-info 1 ,
.Xr vipl 7
"""


def plain(text):
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("`", "").strip()


def settings(path):
    """(name, default, range, meaning) of each row of the first table."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("## "):
                return
            if line.startswith("| `VIPL_"):
                yield [plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    lines = [HEAD % DATE]
    for name, default, values, meaning in settings(arguments[0]):
        lines.append(".It Ev " + name)
        lines.append(roff(meaning[0].upper() + meaning[1:] + "."))
        lines += [roff("Values: %s." % values)] if values else []
        lines += [roff("Default: %s." % default)] if default else []
    with open(arguments[1], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n" + TAIL)


if __name__ == "__main__":
    main(sys.argv[1:])
