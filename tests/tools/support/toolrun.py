# SPDX-License-Identifier: MIT
"""Runs the command line tools for their tests: every wait has a limit, none is a fixed sleep.

A test script calls directory() first, then Checks() and the functions here, and ends with
Checks.finish(). Nothing but Python's own library is used.
"""
import json
import os
import queue
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import checks  # noqa: E402

# For one program; far above what any needs, but those that are told otherwise.
LIMIT_S = 60 * int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))


def directory():
    """The folder of the programs: the script's argument."""
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: %s DIRECTORY-OF-THE-PROGRAMS" % sys.argv[0])
    return sys.argv[1]


def unique(name):
    """A discriminator that no other test run uses."""
    return "%s-%d" % (name, os.getpid())


class Result:
    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err


def run(*command, env=None, limit_s=LIMIT_S):
    """Run a program to its end."""
    full = dict(os.environ, **(env or {}))
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=full,
                              timeout=limit_s, universal_newlines=True)
    except subprocess.TimeoutExpired:
        return Result("timeout", "", "")
    return Result(done.returncode, done.stdout, done.stderr)


class Running:
    """A program in the background, whose lines can be waited for."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        universal_newlines=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def wait_line(self, part):
        """The next line that contains `part`; None if the program ends or takes too long."""
        while True:
            try:
                line = self.lines.get(timeout=LIMIT_S)
            except queue.Empty:
                return None
            if line is None or part in line:
                return line

    def signal(self, number):
        """Send a signal and wait for the end; returns the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        try:
            code = self.process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "timeout"
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Checks(checks.Checks):
    """Those of a tool's runs: of a failure, what the tool said is printed too."""

    def that(self, right, what, result=None):
        super().that(right, what)
        if not right and result is not None:
            print("  code %s\n  out %r\n  err %r" % (result.code, result.out[-600:], result.err[-600:]))

    def code(self, result, code, what):
        self.that(result.code == code, "%s: exit code %s, not %s" % (what, result.code, code), result)

    def common_options(self, tool):
        """--help, --version and wrong usage, the same for every tool."""
        result = run(tool, "--help")
        self.code(result, 0, "--help")
        self.that(result.out.startswith("usage: " + os.path.basename(tool)), "--help prints the usage", result)
        self.that(all(len(line) <= 90 for line in result.out.splitlines()), "--help fits a terminal", result)
        result = run(tool, "--version")
        self.code(result, 0, "--version")
        self.that(result.out.split()[:1] == [os.path.basename(tool)], "--version names the tool", result)
        result = run(tool, "--no-such-option")
        self.code(result, 2, "an unknown option")
        self.that(result.out == "" and result.err != "", "an unknown option is explained on stderr", result)
        self.code(run(tool, "--device"), 2, "an option without its value")

    def json(self, text, what):
        """The object in `text`, or {} and a failure."""
        try:
            return json.loads(text)
        except ValueError as error:
            self.that(False, "%s: %s in %r" % (what, error, text[:300]))
            return {}


__all__ = ["directory", "unique", "run", "Running", "Checks", "signal"]
