# SPDX-License-Identifier: MIT
"""Where the figures of programs are in docs/use/performance.md, whose other sections bench/compare writes."""
import re

TITLE = "Programs: requests per second"


def section_of(page):
    """The section as it is in a page; empty where there is none."""
    found = re.search(r"^## %s\n.*?(?=^## |\Z)" % re.escape(TITLE), page, re.M | re.S)
    return found.group(0).rstrip("\n") + "\n" if found else ""


def write(path, text):
    """Puts the section into the page: in place of the one that is there, or before the notes."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    old = section_of(page)
    page = page.replace(old, text) if old else page.replace("\n## Notes\n", "\n%s\n## Notes\n" % text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
