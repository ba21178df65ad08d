#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Documents wrap at 120 columns, and comments at 100.

    columns.py ROOT          checks the tree
    columns.py --self-test   checks that long lines are found, and nothing else

A document's line counts if it could be broken: tables, blocks of code, headings, and a single long word or link do not count. A comment counts
if it stands alone on its lines: a remark behind code is laid out with the code, by clang-format.
"""
import fnmatch
import re
import sys
import tempfile

import tree

DOCUMENT, COMMENT = 120, 100

# What is held to it. A star stands for folders, too.
COVERED = ('*.md', 'bench/*', 'examples/*', 'include/*', 'integrations/*', 'providers/*', 'src/*', 'tests/*', 'tools/*')
SOURCES = ('.c', '.h', '.cpp', '.hpp')

# A comment, or a text in quotes, which may look like one.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
MARK = re.compile(r'^\s*(?:[-*+] |\d+\. |/\*+|\*|//[/!]?<?)?\s*')


def is_breakable(line, columns):
    """Whether a blank lies where a line that is too long could be broken: behind its indentation and mark, and not past the limit."""
    start = MARK.match(line).end()
    return ' ' in line[start:columns + 1].rstrip()


def long_prose(text):
    """(number, columns) of each line of a document that is to be wrapped."""
    code, before = False, ''
    for number, line in tree.prose(text):
        if line.startswith('    ') and (code or not before.strip()):
            code = True
        elif line.strip():
            code = False
        if len(line) > DOCUMENT and not code and not line.lstrip().startswith(('|', '#')) and is_breakable(line, DOCUMENT):
            yield number, len(line)
        before = line


def long_comments(text):
    """(number, columns) of each line of a source whose comment is to be wrapped."""
    for token in TOKEN.finditer(text):
        number, start = text.count('\n', 0, token.start()) + 1, text.rfind('\n', 0, token.start()) + 1
        if not token.group(0).startswith('/') or text[start:token.start()].strip():
            continue
        end = text.find('\n', token.end())
        for offset, line in enumerate(text[start:end if end >= 0 else len(text)].split('\n')):
            last = start + len(line)  # of the line, in the text; code behind the comment does not count
            comment = text[max(start, token.start()):min(last, token.end())]
            columns = min(last, token.end()) - start
            if columns > COMMENT and is_breakable(' ' * (columns - len(comment)) + comment, COMMENT):
                yield number + offset, columns
            start = last + 1


def is_covered(path):
    return any(fnmatch.fnmatch(path, one) for one in COVERED)


def check_tree(root):
    findings = []
    for path in filter(is_covered, tree.files(root, ('.md',) + SOURCES)):
        most, find = (DOCUMENT, long_prose) if path.endswith('.md') else (COMMENT, long_comments)
        findings += ['%s:%d: %d columns, %d at most' % (path, number, columns, most) for number, columns in find(tree.text_of(root, path))]
    return findings


def self_test():
    words, word = 'word ' * 30, 'w' * 130
    page = ['# ' + words, words, '', '- ' + words, '  ' + word, '', '    ' + words, '', '  | ' + words, '```', words, '```', '- [w](' + word + ')',
            'word ' * 24]
    source = ['/* ' + words, ' * ' + words, ' * short */', '// ' + words, '// ' + word, 'int a; // ' + words, ' ' * 8 + '// ' + words,
              'const char *a = "/* ' + words + '";', '/* short */ int b; int ' + word + ' = 1;', '/* ' + 'word ' * 19 + '*/']
    with tempfile.TemporaryDirectory() as root:
        tree.write(root, 'page.md', '\n'.join(page) + '\n')
        tree.write(root, 'tools/sample.c', '\n'.join(source) + '\n')
        found = [re.sub(r': .*', '', finding) for finding in check_tree(root)]
    wanted = ['page.md:2', 'page.md:4', 'tools/sample.c:1', 'tools/sample.c:2', 'tools/sample.c:4', 'tools/sample.c:7']
    print('\n'.join(found))
    return 0 if found == wanted else 1


if __name__ == '__main__':
    sys.exit(tree.main(check_tree, self_test, sys.argv[1:]))
