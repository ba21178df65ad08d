#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cppcheck on the C or C++ files below folders. A file is not looked at again where it was found good with the same text, headers, arguments and
cppcheck; its headers are those that it includes by "..." in any configuration, which is what cppcheck looks through.

    cppcheck.py JOBS FOLDER... -- CPPCHECK-ARGUMENT...
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

from known_good import TOP, KnownGood

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.M)
included = {}


def includes(path, folders):
    """The files of the project that a file includes, itself among them."""
    found, left = set(), [path]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        if path not in included:
            with open(path, "rb") as file:
                names = [name.decode() for name in INCLUDE.findall(file.read())]
            tried = (os.path.normpath(os.path.join(folder, name)) for name in names for folder in [os.path.dirname(path)] + folders)
            included[path] = [name for name in tried if os.path.isfile(name)]
        left += included[path]
    return found


def sources(folders):
    return [path for folder in folders for ending in ("c", "cpp")
            for path in glob.glob(os.path.join(TOP, folder, "**", "*." + ending), recursive=True)]


def main():
    split = sys.argv.index("--")
    jobs, folders, arguments = sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]
    good = KnownGood("cppcheck", arguments)
    paths = [os.path.join(TOP, argument[2:]) for argument in arguments if argument.startswith("-I")]
    stamps = {path: good.stamp(os.path.relpath(path, TOP), includes(path, paths)) for path in sorted(sources(folders))}
    new = [path for path, stamp in stamps.items() if not good.has(stamp)]
    code = 0
    if new:
        with tempfile.TemporaryDirectory() as build:  # several processes need one
            code = subprocess.run(["cppcheck", "--quiet", "--error-exitcode=1", "--cppcheck-build-dir=" + build, "-j", jobs] + arguments +
                                  [os.path.relpath(path, TOP) for path in new], cwd=TOP, check=False).returncode
    for path in new if code == 0 else []:
        good.add(stamps[path])
    print("cppcheck: %d files, %d known to be good, %s" % (len(stamps), len(stamps) - len(new), "findings" if code else "none with findings"))
    return 1 if code or not stamps else 0


if __name__ == "__main__":
    sys.exit(main())
