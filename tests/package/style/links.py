#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every relative link of a Markdown file of the tree names a file or folder that exists, and an anchor that the file has.

    links.py ROOT          checks the tree
    links.py --self-test   checks that a missing file and a missing anchor are found, and nothing else

Anchors are those that GitHub makes of headings, and those that the text sets (<a id="...">). Links in code are no links; addresses of
other hosts are not followed.
"""
import os
import re
import sys
import tempfile

import tree

LINK = re.compile(r'\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)|^ *\[[^\]]+\]: +(\S+)|(?:href|src)="([^"]+)"')
HEADING = re.compile(r'^ {0,3}#{1,6} +(.*?) *#*$')
SET = re.compile(r'<a +(?:id|name)="([^"]+)"')


def anchors(text):
    """The names by which a link may point into a document."""
    found, seen = set(), {}
    for _, line in tree.prose(text):
        found |= set(SET.findall(line))
        heading = HEADING.match(line)
        if heading:
            words = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading.group(1))
            name = re.sub(r'[^\w\- ]', '', words.lower()).replace(' ', '-')
            count = seen[name] = seen.get(name, -1) + 1
            found.add('%s-%d' % (name, count) if count else name)
    return found


def check_link(root, path, target):
    """What is wrong with a link of the document `path`, or None."""
    if re.match(r'[a-z]+:', target):
        return None
    to, _, anchor = target.partition('#')
    whole = os.path.normpath(os.path.join(os.path.dirname(path), to)) if to else path
    if not os.path.exists(os.path.join(root, whole)):
        return 'a link to nothing: ' + target
    if anchor and not (whole.endswith('.md') and anchor in anchors(tree.text_of(root, whole))):
        return 'no such anchor: ' + target
    return None


def check_tree(root):
    findings, count = [], 0
    for path in tree.files(root, '.md'):
        for number, line in tree.prose(tree.text_of(root, path)):
            for found in LINK.findall(re.sub(r'`[^`]*`(?!\])', '', line)):
                count += 1
                wrong = check_link(root, path, ''.join(found))
                if wrong:
                    findings.append('%s:%d: %s' % (path, number, wrong))
    return findings, count


def self_test():
    page = ['# A page, of `two` parts', '[here](#a-page-of-two-parts) [there](sub/other.md#second-1) [up](sub/) [far](https://host/x#y)',
            '[gone](sub/gone.md)', '[`code.h`](code.h)', '[no](#part) [no](sub/other.md#second-2)', '```', '[code](gone.c)', '```',
            '`[code](gone.c)`', '<img src="gone.svg">', '[ref]: gone.txt']
    with tempfile.TemporaryDirectory() as root:
        tree.write(root, 'page.md', '\n'.join(page) + '\n')
        tree.write(root, 'sub/other.md', '## Second\n\n## Second\n\n[back](../page.md) [wrong](page.md)\n')
        tree.write(root, 'build/page.md', '[gone](gone.md)\n')
        found, count = check_tree(root)
    wanted = ['page.md:3: a link to nothing: sub/gone.md', 'page.md:4: a link to nothing: code.h', 'page.md:5: no such anchor: #part',
              'page.md:5: no such anchor: sub/other.md#second-2', 'page.md:10: a link to nothing: gone.svg',
              'page.md:11: a link to nothing: gone.txt', 'sub/other.md:5: a link to nothing: page.md']
    print('\n'.join(found))
    return 0 if found == wanted and count == 12 else 1


def main(arguments):
    if arguments == ['--self-test']:
        return self_test()
    findings, count = check_tree(arguments[0])
    print('\n'.join(findings + ['%d links, %d findings' % (count, len(findings))]))
    return 1 if findings or not count else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
