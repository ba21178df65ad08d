#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every link of the pages that the target doc makes leads to a page, and to a place that this page has; and the landing page leads to each guide.

    links.py FOLDER        checks the pages
    links.py --self-test   checks that a missing page, place and guide are found
"""
import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from urllib.parse import unquote

GUIDE = re.compile(r'^(use|design|rnic)_\w+\.html$')
MENUS = ('menudata.js', 'navtreedata.js')
SCRIPTED = re.compile(r'"([\w-]+\.html)(?:#([\w-]+))?"')

# Doxygen 1.9.4 names a section of nested classes in the head of a page also where all of them are private, and leaves the section out.
WITHOUT_PLACE = '#nested-classes'


class Page(HTMLParser):
    """What a page links to, and the places that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ('href', 'src', 'data') and value:
                self.links.append((self.getpos()[0], value))
            elif name in ('id', 'name') and value:
                self.places.add(value)


def text_of(folder, name):
    with open(os.path.join(folder, name), encoding='utf-8', errors='replace') as file:
        return file.read()


def check(folder):
    names = sorted(os.listdir(folder))
    pages = {name: Page(text_of(folder, name)) for name in names if name.endswith('.html')}
    links = [(name, line, target) for name, page in pages.items() for line, target in page.links]
    for name in (name for name in names if name in MENUS):
        for number, line in enumerate(text_of(folder, name).splitlines(), 1):
            links += [(name, number, page + ('#' + place if place else '')) for page, place in SCRIPTED.findall(line)]
    findings = []
    for name, line, target in links:
        to, _, place = unquote(target).partition('#')
        to = to or name
        if re.match(r'[a-z]+:', target) or target == WITHOUT_PLACE:
            continue
        if not os.path.exists(os.path.join(folder, to)):
            findings.append('%s:%d: a link to nothing: %s' % (name, line, target))
        elif place and to in pages and place not in pages[to].places:
            findings.append('%s:%d: no such place: %s' % (name, line, target))
    led_to = {target for name, _, target in links if name == 'index.html'}
    findings += ['index.html: does not lead to ' + name for name in sorted(pages) if GUIDE.match(name) and name not in led_to]
    return findings, len(pages), len(links)


def self_test():
    sample = {'index.html': '<a href="use_a.html#place">a</a><a href="gone.html">b</a><img src="gone.png"><a href="https://host/">c</a>',
              'use_a.html': '<h1 id="place">A</h1><a href="#no">d</a><object data="gone.svg"></object>',
              'rnic_b.html': '<a href="index.html">e</a>', 'menudata.js': 'url:"gone.html"\nurl:"use_a.html#place"\n'}
    wanted = ['index.html:1: a link to nothing: gone.html', 'index.html:1: a link to nothing: gone.png',
              'menudata.js:1: a link to nothing: gone.html', 'index.html: does not lead to rnic_b.html',
              'index.html: does not lead to use_a.html', 'use_a.html:1: no such place: #no', 'use_a.html:1: a link to nothing: gone.svg']
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sample.items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
        found = check(folder)[0]
    print('\n'.join(found))
    return 0 if sorted(found) == sorted(wanted) else 1


def main(arguments):
    if arguments == ['--self-test']:
        return self_test()
    findings, pages, links = check(arguments[0])
    print('\n'.join(findings + ['%d pages, %d links, %d findings' % (pages, links, len(findings))]))
    return 1 if findings or pages < 40 else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
