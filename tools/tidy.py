#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""clang-tidy on the C and C++ files of a build, several at a time. A file is not looked at again where it was found good with the same text,
headers, command, settings and clang-tidy.

    tidy.py BUILD JOBS FOLDER... [-- CLANG-TIDY-ARGUMENT...]

The headers are those of the build's last compilation, which has to be there.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

from known_good import TOP, KnownGood

SETTINGS = [os.path.join(TOP, folder, ".clang-tidy") for folder in ("", "src/sockets", "integrations")]


def headers(build):
    """Object -> the files that it was compiled from."""
    found, files = {}, []
    shown = subprocess.run(["ninja", "-C", build, "-t", "deps"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    for line in shown.splitlines():
        if line.startswith("    "):
            files.append(os.path.normpath(os.path.join(build, line.strip())))
        elif ": #deps" in line:
            files = found[line.split(": #deps")[0]] = []
    return found


def work(build, folders):
    """(file, what its verdict depends on) of each C or C++ file below the folders; once, as it is compiled first."""
    deps, seen = headers(build), set()
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    for entry in commands:
        path = os.path.relpath(entry["file"], TOP)
        if path in seen or not path.endswith((".c", ".cpp")) or not path.startswith(tuple(folder + os.sep for folder in folders)):
            continue
        seen.add(path)
        compiled_from = deps.get(entry.get("output", ""), deps.get(entry["command"].split(" -o ")[-1].split()[0]))
        yield path, entry["command"].replace(TOP, "."), compiled_from


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    build, jobs, folders = os.path.realpath(sys.argv[1]), int(sys.argv[2]), sys.argv[3:split]
    tidy = ["clang-tidy", "-quiet", "-p", build] + sys.argv[split + 1:]
    good = KnownGood("clang-tidy", sys.argv[split + 1:], SETTINGS)

    def look(item):
        """What clang-tidy says of a file; None: nothing, or it had nothing to say before."""
        path, command, compiled_from = item
        stamp = compiled_from and good.stamp(command, compiled_from)
        if stamp and good.has(stamp):
            return path, None, True
        done = subprocess.run(tidy + [os.path.join(TOP, path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
        if done.returncode == 0 and not done.stdout.strip():
            if stamp:
                good.add(stamp)
            return path, None, False
        return path, done.stdout or done.stderr, False

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(look, work(build, folders)))
    for path, text, _ in results:
        if text:
            print("%s:\n%s" % (path, text))
    bad = sum(text is not None for _, text, _ in results)
    print("tidy: %d files, %d known to be good, %d with findings" % (len(results), sum(known for _, _, known in results), bad))
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
