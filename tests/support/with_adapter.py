#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a program on an adapter of its own, an emulated RDMA card that no other program knows.

    with_adapter.py VIPL-RNICD [OPTION...] -- PROGRAM [ARGUMENT...]

The options are the adapter's. Ends as the program does; and with 1 if the adapter did not outlive it. "-" for VIPL-RNICD: there is
none yet, and the program's first NIC handle starts one. VIPL_TEST_DEVICE=rnic:bus: the program's device is rnic:bus:PATH, where the
adapter speaks the bus protocol.
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 20


def has_ended(adapter, seconds):
    """Whether it ends within a moment."""
    try:
        adapter.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def await_socket(adapter, path):
    end = time.monotonic() + LIMIT_S * int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(path)
                return True
            except OSError:
                if has_ended(adapter, 0.01):
                    return False
    return False


def exit_code(result):
    return result if result >= 0 else 128 - result


def main(arguments):
    if "--" not in arguments or arguments.index("--") < 1:
        sys.exit(__doc__.strip())
    end = arguments.index("--")
    with tempfile.TemporaryDirectory(prefix="vipl-") as folder:
        path = os.path.join(folder, "rnic")
        program = arguments[end + 1:]
        environment = dict(os.environ, VIPL_RNIC=path)
        if arguments[0] == "-":
            return exit_code(subprocess.run(program, env=environment, check=False).returncode)
        sockets = [path]
        options = ["--socket", path]
        if environment.get("VIPL_TEST_DEVICE") == "rnic:bus":
            sockets.append(path + "-bus")
            options += ["--bus", sockets[1]]
            environment["VIPL_TEST_DEVICE"] = "rnic:bus:" + sockets[1]
        adapter = subprocess.Popen(arguments[:1] + options + arguments[1:end])
        try:
            if not all(await_socket(adapter, one) for one in sockets):
                print("with_adapter: the adapter does not serve", file=sys.stderr)
                return 1
            result = subprocess.run(program, env=environment, check=False).returncode
            if adapter.poll() is not None:
                print("with_adapter: the adapter has ended with %d" % adapter.returncode, file=sys.stderr)
                return 1
            return exit_code(result)
        finally:
            if adapter.poll() is None:
                adapter.send_signal(signal.SIGTERM)
                try:
                    adapter.wait(LIMIT_S)
                except subprocess.TimeoutExpired:
                    adapter.kill()
                    adapter.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
