#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/spec-coverage.md: every function of vipl.h and the conformance cases that hold it to its word.

    spec_coverage.py            writes the file
    spec_coverage.py --check    says whether the file is as it would be written
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTPUT = os.path.join(ROOT, 'docs/spec-coverage.md')
LEVELS = ('early', 'functional', 'full')
TEXT = r'"(?:\\.|[^"\\])*"'
CASE = re.compile(r'^(?:TEST_CASE|T[A-Z]+_[A-Z_]*CASE\w*|MADE_\w*CASE\w*)\(\s*((?:%s\s*)+),\s*((?:%s\s*)+)' % (TEXT, TEXT), re.M)


def joined(literals):
    return ''.join(text[1:-1] for text in re.findall(TEXT, literals)).replace('\\"', '"')


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


def cases():
    """(file, name, tags) of each conformance case."""
    folder = os.path.join(ROOT, 'tests/conformance')
    for name in sorted(os.listdir(folder)):
        if name.endswith('.cpp'):
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                for match in CASE.finditer(file.read()):
                    yield name, joined(match.group(1)), re.findall(r'\[(\w+)\]', joined(match.group(2)))


def document():
    by_function = {}
    for file, name, tags in cases():
        level = next((tag for tag in tags if tag in LEVELS), '?')
        for tag in tags:
            if tag not in LEVELS:
                by_function.setdefault(tag, []).append((LEVELS.index(level) if level in LEVELS else 3, level, name, file))
    known = list(functions())
    total = sum(len(rows) for rows in by_function.values())
    lines = ['# Coverage of the specification', '',
             'Written by `tools/spec_coverage.py` from the cases of `tests/conformance`; do not edit. Cases with two sides run in',
             'one process and between two. `vipl-conformance` runs them all and prints such a table of results.', '',
             '%d functions, %d cases. Levels are those of VIPL 1.0: Early Adopter, Functional, Full.' % (len(known), total), '',
             '| function | early | functional | full |', '|---|---|---|---|']
    for _, function in known:
        rows = by_function.get(function, [])
        lines.append('| `%s` | %s |' % (function, ' | '.join(
            str(sum(1 for row in rows if row[1] == level) or '') for level in LEVELS)))
    section = ''
    for own_section, function in known + [('Topics', tag) for tag in sorted(set(by_function) - {f for _, f in known})]:
        if own_section != section:
            section = own_section
            lines += ['', '## ' + section]
        lines += ['', '### ' + function, '']
        lines += ['- %s (%s, `%s`)' % (name, level, file) for _, level, name, file in sorted(by_function.get(function, []))] or \
                 ['No case of its own.']
    return '\n'.join(lines) + '\n'


def main(arguments):
    text = document()
    if arguments == ['--check']:
        with open(OUTPUT, encoding='utf-8') as file:
            same = file.read() == text
        missing = [f for _, f in functions() if not re.search(r'\| `%s` \| .*\d' % f, text)]
        for function in missing:
            print('no conformance case: ' + function)
        if not same:
            print('docs/spec-coverage.md is old: run tools/spec_coverage.py')
        return 0 if same and not missing else 1
    with open(OUTPUT, 'w', encoding='utf-8') as file:
        file.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
