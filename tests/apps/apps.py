#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One test with an unmodified program, whose ends run under vipl-run or do not.

    apps.py FOLDER-OF-THE-PROGRAMS PROGRAM both|client|server|neither [--full] [OPTION...]

PROGRAM is a module of this folder, whose run(machine, options) is the test. --full: as much as the full run has. neither: over plain TCP.
"""
import importlib
import os
import sys
import traceback

from harness import Failed, Machine

PROGRAMS = ("echo", "idle", "inetd", "iperf", "kills", "many", "memcached", "nginx", "postgres", "redis", "refused", "script", "short", "ssh")
ENDS = ("both", "client", "server", "neither")


def main(arguments):
    if len(arguments) < 3 or arguments[1] not in PROGRAMS or arguments[2] not in ENDS or not os.path.isdir(arguments[0]):
        sys.exit(__doc__.strip())
    full = "--full" in arguments
    options = [word for word in arguments[3:] if word != "--full"]
    with Machine(arguments[0], arguments[2], full) as machine:
        try:
            importlib.import_module(arguments[1]).run(machine, options)
        except Failed as failure:
            machine.checks.that(False, str(failure))
        except Exception:  # of what a program printed: what the processes said is shown with it
            machine.checks.that(False, traceback.format_exc())
        if machine.checks.failed:
            for _, process in machine.started[-6:]:
                print(process.told())
    machine.checks.finish()


if __name__ == "__main__":
    main(sys.argv[1:])
