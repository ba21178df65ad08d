#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A static function's name stands in at most two files of src: grep, gdb and perf show bare names.

    names.py ROOT               checks the tree
    names.py --self-test        checks that a third file is found, and that declarations and calls are not counted
"""
import collections
import glob
import os
import re
import sys
import tempfile

MAX_FILES = 2

DEFINITION = re.compile(
    r'^static\s+(?:(?:inline|const|unsigned|struct|enum|VIPL_\w+|__attribute__\(\(.*?\)\))\s+)*\w+[\s*]+(?:VIPL_\w+\s+)?(\w+)\('
    r'[^;{]*\)\s*\{', re.M)


def files_by_name(root):
    files = collections.defaultdict(set)
    for path in glob.glob(os.path.join(root, 'src', '**', '*.[ch]'), recursive=True):
        with open(path, encoding='utf-8') as file:
            for name in DEFINITION.findall(file.read()):
                files[name].add(os.path.relpath(path, root))
    return files


def findings(root):
    for name, files in sorted(files_by_name(root).items()):
        if len(files) > MAX_FILES:
            yield '%s() stands in %d files: %s' % (name, len(files), ', '.join(sorted(files)))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, 'src', 'a'))

        def write(name, text):
            with open(os.path.join(root, 'src', 'a', name), 'w', encoding='utf-8') as file:
                file.write(text)

        write('one.c', 'static int find(int x)\n{\n    return x;\n}\n')
        write('two.c', 'static inline const struct thing *\nfind(void)\n{\n}\nint other(void);\n')
        write('three.c', 'static void find(void);\nvoid g(void)\n{\n    find();\n}\n')
        assert not list(findings(root)), list(findings(root))
        write('three.c', 'static VIPL_COLD bool find(struct a *b,\n    int c)\n{\n}\n')
        assert len(list(findings(root))) == 1
        os.remove(os.path.join(root, 'src', 'a', 'two.c'))
        assert not list(findings(root))
    print('names: self-test passed')


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return 0
    found = list(findings(sys.argv[1]))
    print('\n'.join(found + ['names: %d findings' % len(found)]))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
