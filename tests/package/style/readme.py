#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README.md shows examples/hello.c as it is; its links, its map and its table of settings are true."""
import os
import re
import sys

root = sys.argv[1]
with open(os.path.join(root, 'README.md'), encoding='utf-8') as file:
    readme = file.read()
with open(os.path.join(root, 'examples/hello.c'), encoding='utf-8') as file:
    example = file.read()

errors = []
blocks = re.findall(r'```c\n(.*?)```', readme, re.S)
if example not in blocks:
    errors.append('README.md: no block is examples/hello.c to the letter')
for target in re.findall(r'\]\(([^)#:]+)\)', readme):
    if not os.path.exists(os.path.join(root, target)):
        errors.append('README.md: a link to nothing: ' + target)
source_map = readme.partition('## The source tree')[2].partition('\n## ')[0]
for path in re.findall(r'^\| `([\w./-]+)` \|', source_map, re.M):
    if not os.path.exists(os.path.join(root, path)):
        errors.append('README.md: the map names what is not there: ' + path)

# Settings: those named here are those the library reads, no more and no fewer.
read = set()
for folder, _, files in os.walk(os.path.join(root, 'src')):
    for name in files:
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            read |= set(re.findall(r'"(VIPL_[A-Z_]+)"', file.read()))
named = set(re.findall(r'^\| `(VIPL_[A-Z_]+)` \|', readme, re.M)) | {'VIPL_CONFIG'}
for setting in sorted(read - named):
    errors.append('README.md: a setting is not described: ' + setting)
for setting in sorted(named - read):
    errors.append('README.md: nothing reads this setting: ' + setting)
print('\n'.join(errors + ['%d errors' % len(errors)]))
sys.exit(1 if errors else 0)
