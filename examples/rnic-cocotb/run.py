#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Simulates card.v with bench.py behind a socket, and runs host.py with it; ends as they do.

usage: python run.py    with the Python that has cocotb 2; needs iverilog
"""
import os
import subprocess
import sys
import tempfile
import threading
import time

from cocotb_tools.runner import get_results, get_runner

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 120


def run_host(path, ended):
    while not os.path.exists(path):
        time.sleep(0.01)
    ended.append(subprocess.run([sys.executable, os.path.join(HERE, "host.py"), path], check=False, timeout=LIMIT_S).returncode)


def main():
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        path = os.path.join(folder, "card")
        ended = []
        host = threading.Thread(target=run_host, args=(path, ended), daemon=True)
        host.start()
        simulator = get_runner("icarus")
        simulator.build(sources=[os.path.join(HERE, "card.v")], hdl_toplevel="card", build_dir=folder)
        results = simulator.test(test_module="bench", hdl_toplevel="card", build_dir=folder, test_dir=HERE,
                                 results_xml=os.path.join(folder, "results.xml"), extra_env={"CARD_SOCKET": path, "PYTHONDONTWRITEBYTECODE": "1"})
        host.join(LIMIT_S)
        tests, failed = get_results(results)
        return 0 if (tests, failed) == (1, 0) and ended == [0] else 1


if __name__ == "__main__":
    sys.exit(main())
