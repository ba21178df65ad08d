# SPDX-License-Identifier: MIT
"""gdb shows descriptors and addresses as what they mean, by tools/gdb/vipl.py: test_gdb.py DIRECTORY-OF-THE-PROGRAMS"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, directory, run  # noqa: E402

if shutil.which("gdb") is None:
    print("cannot run: gdb is not installed")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)
printer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gdb", "vipl.py")
checks = Checks()
result = run("gdb", "-q", "-batch", "-nx", "-ex", "source " + printer, "-ex", "break stop", "-ex", "run", "-ex", "print work", "-ex",
             "print address.net", os.path.join(directory(), "vipl-test-described"))
checks.code(result, 0, "gdb")
checks.that("= RDMA_WRITE, 2 segments, immediate 0x2a; DONE RDMA_WRITE LENGTH_ERROR; 0 bytes {remote 0x1000 (0x7), local 0x2000 + 64 (0x9)}"
            in result.out, "the descriptor", result)
checks.that('= host 7f:00:00:01:00:00, "tutorial"' in result.out, "the address", result)
checks.finish()
