# SPDX-License-Identifier: MIT
"""tools/cppcheck.py, in a folder of its own and with a cppcheck that finds the word WRONG: what it looks at again, and what not."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
CHECKER = r'''#!/bin/sh
[ "$1" != --version ] || { echo "Cppcheck ${VERSION:-1}"; exit; }
for argument; do
    case $argument in *.c) echo "looks at $argument"; ! grep WRONG "$argument" || code=1 ;; esac
done
exit ${code:-0}
'''


class Cppcheck(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        for name in ("tools", "bin", "src/sub", "include"):
            os.makedirs(os.path.join(self.top, name))
        for name in ("cppcheck.py", "known_good.py"):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.top, "tools"))
        self.write("bin/cppcheck", CHECKER)
        os.chmod(os.path.join(self.top, "bin", "cppcheck"), 0o755)
        self.write("src/a.c", '#include "near.h"\n')
        self.write("src/near.h", "#ifdef ELSEWHERE\n#  include <far.h>\n#endif\n")
        self.write("include/far.h", "int far;\n")
        self.write("src/sub/b.c", "#include <stdio.h>\n")

    def write(self, name, text):
        with open(os.path.join(self.top, name), "w", encoding="utf-8") as file:
            file.write(text)

    def look(self, *arguments, **environment):
        """The files that cppcheck was given, and the result."""
        path = os.path.join(self.top, "bin") + os.pathsep + os.environ["PATH"]
        done = subprocess.run([sys.executable, "-B", os.path.join(self.top, "tools", "cppcheck.py"), "2", "src", "--", "-Iinclude", *arguments],
                              env=dict(os.environ, PATH=path, XDG_CACHE_HOME=os.path.join(self.top, "cache"), **environment),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[-1].startswith("cppcheck: 2 files, "), done.stdout)
        return [line[len("looks at "):] for line in lines if line.startswith("looks at ")], done.returncode

    def test_once(self):
        self.assertEqual(self.look(), (["src/a.c", "src/sub/b.c"], 0))
        self.assertEqual(self.look(), ([], 0))

    def test_changes(self):
        self.look()
        self.write("src/sub/b.c", "int b;\n")
        self.assertEqual(self.look(), (["src/sub/b.c"], 0))
        self.write("include/far.h", "long far;\n")
        self.assertEqual(self.look(), (["src/a.c"], 0))

    def test_arguments_and_version(self):
        self.look()
        self.assertEqual(len(self.look("--std=c11")[0]), 2)
        self.assertEqual(len(self.look(VERSION="2")[0]), 2)

    def test_findings_are_not_forgotten(self):
        self.write("src/a.c", "WRONG\n")
        for _ in range(2):
            self.assertEqual(self.look(), (["src/a.c", "src/sub/b.c"], 1))


if __name__ == "__main__":
    unittest.main()
