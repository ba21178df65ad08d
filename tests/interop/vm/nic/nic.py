#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Guests that have the library.

    nic.py CASE FOLDER-OF-PACKAGES FOLDER-OF-PROGRAMS [FOLDER-OF-PROGRAMS-FOR-S390X]

KEEP=1 shows the guests' consoles in any case.
"""
import os
import sys
import tempfile

from guest import Failed, Guest

PROGRAMS = ["vipl-conformance", "vipl-info", "vipl-ping", "vipl-perf"]


def expect(what, found, meant):
    if found != meant:
        raise Failed("%s: %s, not %s" % (what, found, meant))


class Case:
    """What a case has: places, and all that it started."""

    def __init__(self, cache, work, folders):
        self.cache, self.work, self.folders = cache, work, folders
        self.guests = []

    def guest(self, name, script, machine="amd64", **more):
        folder = self.folders[machine]
        programs = [os.path.join(folder, program) for program in PROGRAMS]
        self.guests.append(Guest(self.cache, self.work, name, script, programs, machine=machine, **more))
        return self.guests[-1]

    def end(self):
        for guest in self.guests:
            guest.end()


def boot(case):
    """The library on Linux kernels that are not this machine's, one of them big-endian."""
    for machine in ("amd64", "s390x"):
        guest = case.guest(machine, "step loopback vipl-conformance --device loopback --level early\n", machine)
        guest.finish(90)
        expect("loopback on " + machine, guest.said("step loopback: "), ["0"])


CASES = {"boot": boot}


def need(*folders):
    missing = [folder for folder in folders if not os.path.isdir(folder)]
    if missing:
        print("not here: %s; ./dev vm makes them" % " ".join(missing))
        sys.exit(77)


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    cache, folders = sys.argv[2], dict(zip(("amd64", "s390x"), sys.argv[3:]))
    need(*[os.path.join(cache, part) for part in ("qemu", "amd64", "s390x")], *folders.values())
    with tempfile.TemporaryDirectory(prefix="vipl-nic.") as work:
        case = Case(cache, work, folders)
        failed = True
        try:
            CASES[sys.argv[1]](case)
            failed = False
        except Failed as error:
            print("FAILED: %s" % error)
        finally:
            case.end()
            if failed or os.environ.get("KEEP"):
                print("".join(guest.console() for guest in case.guests))
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
