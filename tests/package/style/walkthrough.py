#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Documents name functions and files that exist.

    walkthrough.py ROOT DOCUMENT...   `name()` is defined or declared in src/ or include/; `folder/name.c` is a path below ROOT
    walkthrough.py --self-test        checks that a missing function and a missing file are found
"""
import os
import re
import sys
import tempfile

NAME = re.compile(r'\b([A-Za-z_]\w*)\s*\(')
FUNCTION = re.compile(r'`([A-Za-z_]\w*)\(\)`')
PATH = re.compile(r'`((?:src|include|tests|tools|docs|cmake|examples|bench)/[\w./-]+)`')


def text_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def functions(root):
    """Every name that begins a definition or a declaration, the operations of a table included."""
    found = set()
    for top in ('src', 'include'):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in (name for name in files if name.endswith(('.c', '.h'))):
                text = re.sub(r'/\*.*?\*/', ' ', text_of(os.path.join(folder, name)), flags=re.S)
                for line in text.splitlines():
                    if line[:1] not in ('', ' ', '\t', '#', '}'):
                        found |= set(NAME.findall(line))
    return found


def check(root, documents):
    known = functions(root)
    findings = []
    for document in documents:
        for number, line in enumerate(text_of(os.path.join(root, document)).splitlines(), 1):
            for name in FUNCTION.findall(line):
                if name not in known:
                    findings.append('%s:%d: no such function: %s()' % (document, number, name))
            for path in PATH.findall(line):
                if not os.path.exists(os.path.join(root, path)):
                    findings.append('%s:%d: no such file: %s' % (document, number, path))
    return findings


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in (('src/good.c', 'static int\nmade(int a)\n{\n    return called(a);\n}\n'),
                           ('include/good.h', 'int declared(void);\n'),
                           ('page.md', '`made()` `declared()` `src/good.c`\n`called()`\n`src/gone.c`\n')):
            os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write(text)
        found = check(root, ['page.md'])
    wanted = ['page.md:2: no such function: called()', 'page.md:3: no such file: src/gone.c']
    print('\n'.join(found))
    return 0 if found == wanted else 1


def main(arguments):
    if arguments == ['--self-test']:
        return self_test()
    findings = check(arguments[0], arguments[1:])
    print('\n'.join(findings + ['%d findings' % len(findings)]))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
