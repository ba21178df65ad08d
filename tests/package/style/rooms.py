#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What documents say of the tree is what is there.

    rooms.py ROOT          checks the tree
    rooms.py --self-test   checks that every rule finds its bad sample

A folder of src has a README.md, or one above it has: a row for each file, or for a pair `name.c` and `name.h` as `name`, by its path from
there; and, after "Includes:", what tools/check_layers.py lets the folder include. A list of files in a comment names files of its folder.
docs/design/architecture.md has a row for each of these folders, and for each folder of tests. What docs/design/glossary.md writes as code,
in the tables before the retired words, occurs in src or include.
"""
import os
import re
import sys
import tempfile

import tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'tools'))
import check_layers  # noqa: E402

SOURCES = ('.c', '.h')
ROW = re.compile(r'^\| `([\w./-]+)` \|', re.M)
LISTED = re.compile(r'^ \*   (\w+\.[ch])  +\S', re.M)
ARCHITECTURE = 'docs/design/architecture.md'
GLOSSARY = 'docs/design/glossary.md'


def readme_of(root, path):
    """The README.md that has to name a file of src: the nearest one above it, or that of its folder."""
    folder = os.path.dirname(path)
    while '/' in folder:
        if os.path.exists(os.path.join(root, folder, 'README.md')):
            return folder + '/README.md'
        folder = os.path.dirname(folder)
    return os.path.dirname(path) + '/README.md'


def check_rows(root):
    """Each file has one row, and each row its files."""
    wanted = {}
    for path in tree.files(root, SOURCES, ('src', 'providers')):
        wanted.setdefault(readme_of(root, path), set()).add(path)
    for readme in sorted(wanted):
        if not os.path.exists(os.path.join(root, readme)):
            yield '%s: is missing' % readme
            continue
        rows = []
        for name in ROW.findall(tree.text_of(root, readme)):
            path = os.path.dirname(readme) + '/' + name
            rows += [path] if path.endswith(SOURCES) else [path + '.c', path + '.h']
        for path in sorted(wanted[readme] - set(rows)):
            yield '%s: no row for %s' % (readme, path)
        for path in sorted(set(rows) - wanted[readme]):
            yield '%s: a row for what is not there: %s' % (readme, path)
        for path in sorted({path for path in rows if rows.count(path) > 1}):
            yield '%s: two rows for %s' % (readme, path)


def allowed(layer):
    """What the files of a folder may include, its own headers aside."""
    rooms = set()
    for name, included in check_layers.ROOMS.items():
        if name == layer or name == layer + '/client':
            rooms |= included
    if not rooms and layer.startswith('src/backends/'):
        rooms = check_layers.BACKEND
    own = layer[len('src/'):]
    return {room for room in rooms if room != own and not room.startswith(own + '/')}


def check_includes(root):
    for readme in tree.files(root, 'README.md', ('src',)):
        said = re.search(r'^Includes: (.*?)(?:\n\n|\Z)', tree.text_of(root, readme), re.M | re.S)
        if said is None:
            yield '%s: does not say what its files may include ("Includes:")' % readme
            continue
        said = set(re.findall(r'`([^`]+)`', said.group(1)))
        for room in sorted(said ^ allowed(os.path.dirname(readme))):
            yield '%s: "Includes:" and tools/check_layers.py do not both have %s' % (readme, room)


def check_lists(root):
    for path in tree.files(root, SOURCES, ('src', 'providers')):
        for name in LISTED.findall(tree.text_of(root, path)):
            if not os.path.exists(os.path.join(root, os.path.dirname(path), name)):
                yield '%s: lists what is not there: %s' % (path, name)


def check_architecture(root):
    table = tree.text_of(root, ARCHITECTURE).partition('## The tree')[2].partition('\n## ')[0]
    rows = ROW.findall(table)
    for path in rows:
        if not os.path.exists(os.path.join(root, path)):
            yield '%s: the tree names what is not there: %s' % (ARCHITECTURE, path)
    folders = {os.path.dirname(path) for path in tree.files(root, 'README.md', ('src',))}
    folders |= {'/'.join(path.split('/')[:2]) for path in tree.files(root, ('.c', '.cpp', '.py', '.txt'), ('tests',)) if path.count('/') > 1}
    for folder in sorted(folders):
        if not any(folder == row or folder.startswith(row + '/') for row in rows):
            yield '%s: the tree has no row for %s' % (ARCHITECTURE, folder)


def check_glossary(root):
    words = set()
    for path in tree.files(root, SOURCES + ('.hpp', '.json', '.py'), ('src', 'include')):
        words |= set(re.findall(r'[A-Za-z_][\w-]*', tree.text_of(root, path)))
    tables = tree.text_of(root, GLOSSARY).partition('## Retired words')[0]
    for number, line in enumerate(tables.splitlines(), 1):
        for code in re.findall(r'`([^`]+)`', line) if line.startswith('|') else []:
            there = os.path.exists(os.path.join(root, code)) if '/' in code else code.strip('()') in words
            if not there:
                yield '%s:%d: neither src nor include has %s' % (GLOSSARY, number, code)


def check_tree(root):
    return [finding for check in (check_rows, check_includes, check_lists, check_architecture, check_glossary) for finding in check(root)]


SAMPLE = {
    'src/base/list.h': '', 'src/base/pool.c': '/*\n *   pool.c   objects\n *   gone.c   what was there\n */', 'src/base/pool.h': 'vipl_pool_take',
    'src/base/part/fifo.c': '', 'src/base/new.c': '', 'src/core/vi.c': '', 'include/vipl/vipl.h': 'VipOpenNic',
    'src/base/README.md': '# Base\n\nIncludes: `os`, `core`.\n\n| file | what |\n|---|---|\n| `pool` | a |\n| `part/fifo.c` | b |\n'
                          '| `list` | c |\n| `pool.c` | d |\n',
    'src/os/README.md': '# System\n\nIncludes: nothing.\n', 'src/hook/README.md': '# Hook\n', 'tests/unit/test.cpp': '',
    'docs/design/architecture.md': '## The tree\n\n| `src/base` | a |\n| `src/os` | b |\n| `src/gone` | c |\n\n## Other\n\n| `src/hook` | d |\n',
    'docs/design/glossary.md': '| word | meaning |\n| `VipOpenNic()` | `src/base` |\n| `vipl_gone` | `src/gone` |\n\n## Retired words\n\n| `old` | a |\n',
}
WANTED = [
    'src/base/README.md: no row for src/base/new.c', 'src/base/README.md: a row for what is not there: src/base/list.c',
    'src/base/README.md: two rows for src/base/pool.c', 'src/core/README.md: is missing',
    'src/base/README.md: "Includes:" and tools/check_layers.py do not both have core',
    'src/hook/README.md: does not say what its files may include ("Includes:")', 'src/base/pool.c: lists what is not there: gone.c',
    'docs/design/architecture.md: the tree names what is not there: src/gone', 'docs/design/architecture.md: the tree has no row for src/hook',
    'docs/design/architecture.md: the tree has no row for tests/unit', 'docs/design/glossary.md:3: neither src nor include has vipl_gone',
    'docs/design/glossary.md:3: neither src nor include has src/gone',
]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in SAMPLE.items():
            tree.write(root, path, text)
        found = check_tree(root)
    for finding in found:
        print(finding if finding in WANTED else 'found wrongly: ' + finding)
    for finding in set(WANTED) - set(found):
        print('not found: ' + finding)
    return 0 if found == WANTED else 1


if __name__ == '__main__':
    sys.exit(tree.main(check_tree, self_test, sys.argv[1:]))
