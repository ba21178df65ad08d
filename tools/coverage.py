#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lines of a source folder that an instrumented build's tests have run.

    coverage.py BUILD_FOLDER SOURCE_FOLDER [--missing]
"""
import json
import os
import subprocess
import sys


def main(build, source, *options):
    source = os.path.realpath(source)
    hits = {}
    for folder, _, files in os.walk(build):
        for name in (name for name in files if name.endswith('.gcda')):
            output = subprocess.run(['gcov', '--json-format', '--stdout', os.path.join(folder, name)], check=True,
                                    capture_output=True, text=True, cwd=build).stdout
            for text in output.splitlines():
                for file in json.loads(text)['files']:
                    path = os.path.realpath(os.path.join(build, file['file']))
                    if path.startswith(source + os.sep):
                        lines = hits.setdefault(path, {})
                        for line in file['lines']:
                            number = line['line_number']
                            lines[number] = lines.get(number, 0) + line['count']
    all_lines = all_run = 0
    for path in sorted(hits):
        run = sum(1 for count in hits[path].values() if count)
        all_lines += len(hits[path])
        all_run += run
        print('%6.1f %%  %4d of %4d  %s' % (100.0 * run / len(hits[path]), run, len(hits[path]),
                                           os.path.relpath(path, source)))
        if '--missing' in options:
            print('         ' + ' '.join(str(n) for n, count in sorted(hits[path].items()) if not count))
    print('%6.1f %%  %4d of %4d  all' % (100.0 * all_run / max(all_lines, 1), all_run, all_lines))


if __name__ == '__main__':
    main(*sys.argv[1:])
