#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes Doxygen's layout: the menu of the pages, from the lists of links in docs/index.md. A heading with such a list is an entry of the menu,
and the links are the entries below it.

    layout.py INDEX DOXYGEN-VERSION FILE
"""
import re
import sys
from xml.sax.saxutils import quoteattr

from pages import name_of


def menu(index):
    """(heading, [(title, page)]) of each section of the index that has links to documents, one for each item."""
    for section in re.split(r'^## ', index, flags=re.M)[1:]:
        heading, _, body = section.partition('\n')
        links = [(title.replace('`', ''), name_of('docs/' + target)) for title, target in re.findall(r'^- \[([^\]]+)\]\(([^)]+\.md)\)', body, re.M)]
        if links:
            yield heading, links


def layout(index, version):
    groups = 'topics' if version >= (1, 9, 8) else 'modules'
    lines = ['<doxygenlayout version="1.0">', '  <navindex>', '    <tab type="mainpage" visible="yes" title="Start"/>']
    for heading, links in menu(index):
        lines.append('    <tab type="usergroup" visible="yes" title=%s>' % quoteattr(heading))
        lines += ['      <tab type="user" visible="yes" url="@ref %s" title=%s/>' % (page, quoteattr(title)) for title, page in links]
        lines.append('    </tab>')
    lines += ['    <tab type="%s" visible="yes" title="Reference"/>' % groups, '  </navindex>', '</doxygenlayout>', '']
    return '\n'.join(lines)


def main():
    index, version, path = sys.argv[1:]
    with open(index, encoding='utf-8') as file:
        text = layout(file.read(), tuple(int(part) for part in re.findall(r'\d+', version)[:3]))
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


if __name__ == '__main__':
    main()
