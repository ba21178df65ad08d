#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README.md shows examples/hello.c as it is, and every file and command it names is there."""
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
for path in re.findall(r'^\| `([\w./-]+)` +\|', readme, re.M):
    if not os.path.exists(os.path.join(root, path)):
        errors.append('README.md: the map names what is not there: ' + path)
print('\n'.join(errors + ['%d errors' % len(errors)]))
sys.exit(1 if errors else 0)
