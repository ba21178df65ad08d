# SPDX-License-Identifier: MIT
"""What a checker found good before: an empty file for each, named after all that the verdict depends on, in $XDG_CACHE_HOME/vipl/CHECKER or below
~/.cache. What nobody has asked for in a month is forgotten.
"""
import hashlib
import os
import subprocess
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
KEPT_S = 30 * 24 * 3600
contents = {}


def digest(path):
    """Of a file's text, which is read once."""
    if path not in contents:
        with open(path, "rb") as file:
            contents[path] = hashlib.sha256(file.read()).hexdigest()
    return contents[path]


class KnownGood:
    """The verdicts of one checker, with one set of arguments and of files with its settings."""

    def __init__(self, checker, arguments, settings=()):
        version = subprocess.run([checker, "--version"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
        self.common = version + "".join(map(digest, settings)) + " ".join(arguments)
        self.folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vipl", os.path.basename(checker))
        os.makedirs(self.folder, exist_ok=True)
        for name in os.listdir(self.folder):
            if os.path.getmtime(os.path.join(self.folder, name)) < time.time() - KEPT_S:
                os.unlink(os.path.join(self.folder, name))

    def stamp(self, command, files):
        """Where the verdict of a command that reads these files is remembered."""
        key = hashlib.sha256(self.common.encode())
        key.update(command.encode())
        for path in sorted(files):
            key.update(("%s %s\n" % (os.path.relpath(path, TOP) if path.startswith(TOP) else path, digest(path))).encode())
        return os.path.join(self.folder, key.hexdigest())

    @staticmethod
    def has(stamp):
        if not os.path.exists(stamp):
            return False
        os.utime(stamp)
        return True

    @staticmethod
    def add(stamp):
        open(stamp, "w", encoding="utf-8").close()
