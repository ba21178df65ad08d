#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Retired words stay out of code and documents. The words, and what to write instead, are a table of docs/design/glossary.md.

    words.py ROOT               checks the tree
    words.py --self-test ROOT   checks that each retired word is found, alone, in a name and in a sentence
"""
import os
import re
import sys

COVERED = ('include', 'src', 'docs', 'tools', 'examples', 'README.md', 'CONTRIBUTING.md')
ENDINGS = ('.c', '.h', '.md', '.py', '.sh', '.1', '.in', '.txt')

# Documents that name the words on purpose, or that are written by a tool from the names of test cases.
EXEMPT = ('docs/design/glossary.md', 'docs/design/spec-coverage.md')

# A word that means something else, and is the right one, in a file or folder.
OTHER_MEANINGS = {
    # a process to a CPU; of a chip; a flag of Windows
    'pin': ('tools', 'docs/rnic', 'src/devices', 'src/adapter', 'src/os/windows/thread.c'),
    'pinned': ('src/dm/dpdk',),  # a flag of DPDK's
    # the CPU; what a driver does to a completion queue of the card
    'arm': ('src/iwarp/crc32c.c', 'src/rnic', 'src/devices', 'src/backends/rnic', 'src/dm/rnic', 'docs/rnic', 'tools/rnic_log'),
    'arms': ('src/rnic', 'docs/rnic'),
    'armed': ('src/rnic', 'src/devices', 'src/backends/rnic', 'docs/rnic'),
    'gate': ('CONTRIBUTING.md', 'tools', 'docs/use'),  # the gate of the continuous integration
    'walk': ('tools/check_layers.py', 'tools/coverage.py'),  # Python's os.walk()
}

# Rules that no list of words expresses: a subject without a noun, and "a message" for "per message".
SENTENCES = {
    r'(?:^|[.;:(*/#|] )Who (?!is|are|may)\w+': '"who ..." as a subject: say which process or thread',
    r'\b(?:[Oo]ne|[Tt]wo|lines?|bytes|messages|processes|calls|segments|descriptors|receives) an? '
    r'(?:message|event|line|row|client|VI|link|step|descriptor|queue|round|process|connection|direction|octave)\b':
        'a number "a message": say "per message"',
}


def retired(root):
    """Pairs (word, what to write instead), from the glossary's table."""
    with open(os.path.join(root, 'docs/design/glossary.md'), encoding='utf-8') as file:
        table = file.read().partition('## Retired words')[2]
    for words, instead in re.findall(r'^\| (`.+?`) \| (.+?) \|$', table, re.M):
        for word in re.findall(r'`(.+?)`', words):
            yield word, instead


def rules(root):
    """(expression, what is wrong, word) of each rule."""
    found = []
    for word, instead in retired(root):
        expression = r'(?<![A-Za-z])' + re.escape(word).replace(r'\ ', r'\s+') + r'(?![A-Za-z])'
        found.append((re.compile(expression, re.I), '"%s" is retired: %s' % (word, instead), word))
    return found + [(re.compile(expression, re.M), text, '') for expression, text in SENTENCES.items()]


def joined(text):
    """The text with line ends, and the marks with which a comment's lines begin, as blanks of the same length."""
    return re.sub(r'\n[ \t]*(?:\*(?!/)|//|#)?[ \t]*', lambda match: ' ' * len(match.group(0)), text)


def check_text(path, text, words):
    """(line, what is wrong) of each finding."""
    small, sentences = text.lower(), joined(text)
    for expression, wrong, word in words:
        # Most files have no letters of most words: they are not searched by the expression, which takes many times as long.
        if word.partition(' ')[0].lower() not in small or path.startswith(OTHER_MEANINGS.get(word, ())):
            continue
        for match in expression.finditer(sentences if ' ' in word else text):
            start = match.start() + (match.group(0)[:1] == '\n')
            yield text.count('\n', 0, start) + 1, wrong


def covered(root):
    for top in COVERED:
        whole = os.path.join(root, top)
        if os.path.isfile(whole):
            yield top
        for folder, _, files in os.walk(whole):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), root)
                if name.endswith(ENDINGS) and path not in EXEMPT:
                    yield path


def check_tree(root):
    words = rules(root)
    findings = []
    for path in sorted(covered(root)):
        with open(os.path.join(root, path), encoding='utf-8') as file:
            findings += [(path,) + found for found in check_text(path, file.read(), words)]
    for path, line, wrong in sorted(findings):
        print('%s:%d: %s' % (path, line, wrong))
    print('%d words and rules, %d findings' % (len(words), len(findings)))
    return 1 if findings or len(words) <= len(SENTENCES) else 0


def self_test(root):
    words, missed, count = rules(root), [], 0
    for word, _ in retired(root):
        samples = [word, 'The %s of a VI.' % word.capitalize(), '/* ' + word.replace(' ', '\n * ') + ' */']
        if ' ' not in word:
            samples.append('vipl_%s_new(x->%s);' % (word, word))
        for sample in samples:
            count += 1
            if not any(word in wrong for _, wrong in check_text('src/base/list.h', sample, words)):
                missed.append(sample)
    for sample in ('/* Who waits is woken. */', 'It ends. Who asks is told.', 'one line an event', '16 bytes a message'):
        count += 1
        if not list(check_text('docs/use/events.md', sample, words)):
            missed.append(sample)
    for sample in ('keeping', 'armour', 'a pinafore', 'one line per event', 'those who wait', 'a settlement'):
        count += 1
        if list(check_text('docs/use/events.md', sample, words)):
            missed.append('found wrongly: ' + sample)
    print('\n'.join(missed + ['%d samples, %d missed' % (count, len(missed))]))
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(self_test(sys.argv[2]) if sys.argv[1] == '--self-test' else check_tree(sys.argv[1]))
