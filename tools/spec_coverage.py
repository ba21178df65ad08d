#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/design/spec-coverage.md: every function of vipl.h and the conformance cases that hold it to its word.

    spec_coverage.py VIPL-CONFORMANCE            writes the file
    spec_coverage.py VIPL-CONFORMANCE --check    says whether the file is as it would be written
"""
import os
import re
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTPUT = os.path.join(ROOT, 'docs/design/spec-coverage.md')
COLUMNS = 120  # of a document
LEVELS = ('early', 'functional', 'full')
RELIABILITY = ('Unreliable Delivery', 'Reliable Delivery', 'Reliable Reception')
SETTINGS = ('in one process', 'on one NIC handle', 'between processes')


def functions():
    """(section, function), in the header's order."""
    with open(os.path.join(ROOT, 'include/vipl/vipl.h'), encoding='utf-8') as file:
        header = file.read()
    section = ''
    for match in re.finditer(r'/\* -{20,}\n \* (.+?)\n \* -{20,}|VI_CALL (Vip\w+)\(', header):
        if match.group(1):
            section = match.group(1)
        else:
            yield section, match.group(2)


def listed(program):
    """(name, tags) of each case the program has: a line each."""
    lines = subprocess.run([program, '--list'], check=True, capture_output=True, text=True).stdout.splitlines()
    for name, tags in zip(lines[::2], lines[1::2]):
        yield name, re.findall(r'\[([^]]+)\]', tags)


def cases(program):
    """function or topic -> level -> name -> how often it is played; variations of a case are one."""
    found = {}
    for name, tags in listed(program):
        for variation in SETTINGS + RELIABILITY:
            name = name.removesuffix(', ' + variation)
        level = next(tag for tag in tags if tag in LEVELS)
        for tag in tags:
            if tag not in LEVELS + ('inproc', 'procs'):
                names = found.setdefault(tag, {}).setdefault(level, {})
                names[name] = names.get(name, 0) + 1
    return found


def document(program):
    found = cases(program)
    known = list(functions())
    different = sum(len(names) for levels in found.values() for names in levels.values())
    played = sum(sum(names.values()) for levels in found.values() for names in levels.values())
    lines = ['# Coverage of the specification', '',
             'Written by `tools/spec_coverage.py` from what `vipl-conformance --list` says; do not edit. A case with two sides is',
             'played in one process and between two, many at each reliability level; the number behind a case is how often it is',
             'played.', '',
             '%d functions, %d cases, played %d times. Levels are those of VIPL 1.0: Early Adopter, Functional, Full.' % (
                 len(known), different, played), '',
             '| function | early | functional | full |', '|---|---|---|---|']
    for _, function in known:
        counts = [str(len(found.get(function, {}).get(level, {})) or '') for level in LEVELS]
        lines.append('| `%s` | %s |' % (function, ' | '.join(counts)))
    section = ''
    topics = sorted(set(found) - {function for _, function in known})
    for own_section, function in known + [('Topics', topic) for topic in topics]:
        if own_section != section:
            section = own_section
            lines += ['', '## ' + section]
        lines += ['', '### ' + function, '']
        for level in LEVELS:
            for name, count in sorted(found.get(function, {}).get(level, {}).items()):
                lines += textwrap.wrap('- %s (%s, %d)' % (name, level, count), COLUMNS, subsequent_indent='  ', break_on_hyphens=False)
        if function not in found:
            lines.append('No case of its own.')
    return '\n'.join(lines) + '\n'


def main(arguments):
    text = document(arguments[0])
    if arguments[1:] == ['--check']:
        with open(OUTPUT, encoding='utf-8') as file:
            same = file.read() == text
        missing = [f for _, f in functions() if not re.search(r'\| `%s` \| .*\d' % f, text)]
        for function in missing:
            print('no conformance case: ' + function)
        if not same:
            print('docs/design/spec-coverage.md is old: run tools/spec_coverage.py build/dev/bin/vipl-conformance')
        return 0 if same and not missing else 1
    with open(OUTPUT, 'w', encoding='utf-8') as file:
        file.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
