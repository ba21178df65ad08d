#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README.md shows examples/hello.c as it is; the tables of docs/use/settings.md and docs/use/building.md are true."""
import os
import re
import sys

root = sys.argv[1]


def text_of(path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def settings_in(*tops):
    """Every name of a setting that a source file below the folders asks for; the table of them does not."""
    found = set()
    for top in tops:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in (name for name in files if name.endswith(('.c', '.h', '.cpp', '.hpp')) and name != 'settings.c'):
                found |= set(re.findall(r'"(VIPL_[A-Z_]+)"', text_of(os.path.join(folder, name))))
    return found


errors = []
if text_of('examples/hello.c') not in re.findall(r'```c\n(.*?)```', text_of('README.md'), re.S):
    errors.append('README.md: no block is examples/hello.c to the letter')

# Settings: those named here are those the library and the tests read, no more and no fewer.
library, _, tests = text_of('docs/use/settings.md').partition('## Settings of the tests')
named = set(re.findall(r'^\| `(VIPL_[A-Z_]+)` \|', library, re.M))
named_for_tests = set(re.findall(r'`(VIPL_[A-Z_]+)`', tests))
read = {name for name in settings_in('src') if not name.startswith(('VIPL_TEST_', 'VIPL_STRESS_'))}
read_by_tests = {name for name in settings_in('tests') if name.startswith(('VIPL_TEST_', 'VIPL_STRESS_'))}
table = set(re.findall(r'"(VIPL_[A-Z_]+)"', text_of('src/base/settings.c')))
for wrong in sorted(named ^ table):
    errors.append('docs/use/settings.md and src/base/settings.c do not both have ' + wrong)
for missing in sorted((read - named) | (read_by_tests - named_for_tests)):
    errors.append('docs/use/settings.md: a setting is not described: ' + missing)
for stray in sorted((named - read) | (named_for_tests - read_by_tests)):
    errors.append('docs/use/settings.md: nothing reads this setting: ' + stray)

# Options of the build: those in the tables of docs/use/building.md are those that there are.
options = set(re.findall(r'^\s*(?:(?:cmake_dependent_)?option\(|set\()(VIPL_[A-Z_]+)(?= "[^"]*"| [^ ]+ CACHE| "" CACHE)', text_of('cmake/vipl_options.cmake'), re.M))
options |= {'VIPL_LIBUV_INCLUDE', 'VIPL_LIBUV_LIBRARY', 'VIPL_TARGET'}  # found, or of the toolchain file
described = set()
for row in re.findall(r'^\| (`VIPL_[^|]*) \|', text_of('docs/use/building.md'), re.M):
    described |= set(re.findall(r'`(VIPL_[A-Z_]+)`', row))
for wrong in sorted(options ^ described):
    errors.append('docs/use/building.md and cmake/vipl_options.cmake do not both have ' + wrong)
print('\n'.join(errors + ['%d errors' % len(errors)]))
sys.exit(1 if errors else 0)
