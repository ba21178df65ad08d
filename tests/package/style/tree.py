# SPDX-License-Identifier: MIT
"""What the rules about the source text share: the files of the tree, and Markdown without its code."""
import os
import re

FENCE = re.compile(r'^ *(```|~~~)')


def text_of(root, path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def write(root, path, text):
    """Makes a file of a small tree for a self-test."""
    whole = os.path.join(root, path)
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    with open(whole, 'w', encoding='utf-8') as file:
        file.write(text)


def files(root, endings, tops=('.',)):
    """The paths below `root`, sorted, of files in the folders `tops` whose names end in one of `endings`. Folders of builds are left out."""
    found = []
    for top in tops:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [name for name in folders if name not in ('.git', 'build')
                          and not os.path.exists(os.path.join(folder, name, 'CMakeCache.txt'))]
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(endings)]
    return sorted(set(found))


def prose(text):
    """(number, line) of each line of a Markdown text that is not in a block of code between fences."""
    fence = ''
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence in ('', mark.group(1)):
            fence = '' if fence else mark.group(1)
        elif not fence:
            yield number, line


def main(check_tree, self_test, arguments):
    """What a style test does with its arguments, ROOT or --self-test: the exit code."""
    if arguments == ['--self-test']:
        return self_test()
    findings = list(check_tree(arguments[0]))
    print('\n'.join(findings + ['%d findings' % len(findings)]))
    return 1 if findings else 0
