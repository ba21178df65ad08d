#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each public function has a manual page that says what its arguments are, and mandoc has nothing to say about any page.

    man.py CHECKOUT BUILT-PAGES
"""
import glob
import os
import re
import shutil
import subprocess
import sys

root, built = sys.argv[1], sys.argv[2]
errors = []
functions = {}
for header in ("vipl.h", "posix.h"):
    with open(os.path.join(root, "include", "vipl", header), encoding="utf-8") as file:
        for name, arguments in re.findall(r"^VIPL_API [^;]*?\bVI_CALL (Vip\w+)\(([^;]*?)\);", file.read(), re.M | re.S):
            functions[name] = [words.split()[-1].lstrip("*") for words in arguments.split(",") if words.strip() != "void"]
with open(os.path.join(root, "include", "vipl", "device_memory.h"), encoding="utf-8") as file:
    for name, arguments in re.findall(r"^VIPL_DM_API [^;(]*?(vipl_dm_\w+)\(([^;]*?)\);", file.read(), re.M | re.S):
        functions[name] = [words.split()[-1].lstrip("*") for words in arguments.split(",")]
for name, arguments in functions.items():
    path = os.path.join(built, "man3", name + ".3")
    if not os.path.exists(path):
        errors.append("no page: " + name)
        continue
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for argument in arguments:
        if ".It Fa \\&" + argument + "\n" not in page:
            errors.append("%s(3) does not say what %s is" % (name, argument))
pages = glob.glob(os.path.join(built, "man3", "*.3")) + [os.path.join(built, "vipl.conf.5")] + glob.glob(os.path.join(root, "tools", "man", "*.*"))
if len(functions) < 50 or len(pages) < len(functions) + 6:
    errors.append("%d functions, %d pages: too few" % (len(functions), len(pages)))
if shutil.which("mandoc") is None:
    print("cannot run: mandoc is not installed")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)
lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                      check=False).stdout
errors += [line for line in lint.splitlines() if "WARNING" in line or "ERROR" in line]
print("\n".join(errors + ["%d functions, %d pages, %d errors" % (len(functions), len(pages), len(errors))]))
sys.exit(1 if errors else 0)
