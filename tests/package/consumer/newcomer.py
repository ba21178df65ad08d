#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stranger's first ten minutes: clone, demo, the landing page, and where it leads: tutorial.py, with what was cloned and installed.

    newcomer.py CHECKOUT WORK CC CXX

Prints a transcript.
"""
import os
import re
import shutil
import subprocess
import sys

from transcript import Transcript

source, work, cc, cxx = sys.argv[1:5]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
kept = ("VIPL_TCP_PORTS", "VIPL_TEST_TIMEOUT_SCALE")  # what else tests set is for this build
environment = {name: value for name, value in os.environ.items() if not name.startswith("VIPL_") or name in kept}
stranger = Transcript(work, environment)

stranger.sh("git clone -q %s vipl" % source)
stranger.sh("cd vipl && ./dev demo", expect=["10000 sent, 10000 intact, 0 lost, 0 corrupt", "us", "MB/s"])
with open(os.path.join(work, "vipl", "docs", "index.md"), encoding="utf-8") as file:
    page = file.read()
first = re.search(r"^- \[(.*?)\]\((.*?)\)", page, re.M)
stranger.that(first is not None and first.groups() == ("Tutorial", "use/tutorial.md"), "the landing page begins with: %s" % first)
stranger.sh("cmake --install vipl/build/demo --prefix installed >log 2>&1 || cat log")
tutorial = os.path.join(work, "vipl", "tests", "package", "consumer", "tutorial.py")
follow = [sys.executable, tutorial, os.path.join(work, "vipl"), os.path.join(work, "installed"), os.path.join(work, "tutorial"), cc, cxx]
stranger.that(subprocess.run(follow, env=environment, check=False).returncode == 0, "the tutorial")
stranger.finish()
