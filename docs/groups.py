#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A filter for Doxygen: the headings of a public header's sections become groups. Prints the header that is its argument, line for line
what it is, so that warnings name the right one.

A heading is a comment of three lines or more, between lines of dashes; its title ends at the first colon or full stop.
"""
import re
import sys

HEADING = re.compile(r"/\* -{20,}\n \* (.+?)\n((?: \* .*\n)*?) \* -{20,} \*/\n")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    count = 0

    def group(match):
        nonlocal count
        title = re.split(r"[:.]", match.group(1))[0]
        name = re.sub(r"\W+", "_", title.lower())
        lines = match.group(0).count("\n")
        end = "/** @} */ " if count else ""
        count += 1
        return "%s/** @defgroup %s %s\n@{ */%s" % (end, name, title, "\n" * (lines - 1))

    text = HEADING.sub(group, text)
    if count:  # the last group ends before what ends the header
        body, mark, end = text.rpartition("\n#ifdef __cplusplus")
        text = body + " /** @} */" + mark + end
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
