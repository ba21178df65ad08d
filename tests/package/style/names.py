#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A static function's name stands in at most two files of src: grep, gdb and perf show bare names.

    names.py ROOT               checks the tree
    names.py --self-test        checks that a third file is found, and that declarations and calls are not counted
"""
import collections
import re
import sys
import tempfile

import tree

MAX_FILES = 2

DEFINITION = re.compile(
    r'^static\s+(?:(?:inline|const|unsigned|struct|enum|VIPL_\w+|__attribute__\(\(.*?\)\))\s+)*\w+[\s*]+(?:VIPL_\w+\s+)?(\w+)\('
    r'[^;{]*\)\s*\{', re.M)


def check_tree(root):
    files = collections.defaultdict(list)
    for path in tree.files(root, ('.c', '.h'), ('src',)):
        for name in set(DEFINITION.findall(tree.text_of(root, path))):
            files[name].append(path)
    for name, paths in sorted(files.items()):
        if len(paths) > MAX_FILES:
            yield '%s() stands in %d files: %s' % (name, len(paths), ', '.join(paths))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        tree.write(root, 'src/a/one.c', 'static int find(int x)\n{\n    return x;\n}\n')
        tree.write(root, 'src/a/two.c', 'static inline const struct thing *\nfind(void)\n{\n}\nint other(void);\n')
        tree.write(root, 'src/a/three.c', 'static void find(void);\nvoid g(void)\n{\n    find();\n}\n')
        assert not list(check_tree(root)), list(check_tree(root))
        tree.write(root, 'src/a/three.c', 'static VIPL_COLD bool find(struct a *b,\n    int c)\n{\n}\n')
        assert len(list(check_tree(root))) == 1
        tree.write(root, 'src/a/two.c', '')
        assert not list(check_tree(root))
    return 0


if __name__ == '__main__':
    sys.exit(tree.main(check_tree, self_test, sys.argv[1:]))
