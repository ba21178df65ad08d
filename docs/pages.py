#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A filter for Doxygen: a document becomes a page of the site. Prints the document that is its argument, line for line what it is, so that
warnings name the right one, but for this:

- the title gets the page's name, which is the file's path (docs/use/tutorial.md: use_tutorial), or `mainpage`;
- the headings of the main page are no sections, which would be in the menu beside the groups of guides;
- a link to a document of the site becomes a reference to its page;
- a link to another file of the tree, which the site does not have, becomes the file's name.
"""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINK = re.compile(r'\[([^\[\]]*)\]\(([^()\s]+)\)')
CODE = re.compile(r'^```.*?^```$|^~~~.*?^~~~$', re.M | re.S)


def name_of(path):
    """The name of a document's page; None: the site has no such page."""
    name = re.sub(r'^docs/', '', path)
    if not name.endswith('.md') or '/' in path and name == path or name == 'README.md':
        return None
    return 'mainpage' if name == 'index.md' else re.sub(r'\W', '_', name[:-len('.md')])


def link(path, match):
    text, target = match.groups()
    to = os.path.normpath(os.path.join(os.path.dirname(path), target.partition('#')[0]))
    if ':' in target or target.startswith('#') or to.endswith(('.svg', '.png')):
        return match.group(0)
    name = name_of(to)
    if name:
        return '[%s](@ref %s)' % (text, name)
    return '`%s`' % to if os.path.basename(to) in text else '%s (`%s`)' % (text, to)


def page(path, text):
    text = re.sub(r'\A<!--.*?-->\n', '\n', text)
    text = re.sub(r'\A(\s*# .*)', lambda match: '%s {#%s}' % (match.group(1), name_of(path)), text)
    if name_of(path) == 'mainpage':
        text = re.sub(r'^## (.*)$', r'<h2>\1</h2>', text, flags=re.M)
    out, at = [], 0
    for code in list(CODE.finditer(text)) + [None]:
        out.append(LINK.sub(lambda match: link(path, match), text[at:code.start() if code else len(text)]))
        if code:
            out.append(code.group(0))
            at = code.end()
    return ''.join(out)


def main():
    path = os.path.relpath(os.path.abspath(sys.argv[1]), TOP)
    with open(sys.argv[1], encoding='utf-8') as file:
        sys.stdout.write(page(path, file.read()))


if __name__ == '__main__':
    main()
