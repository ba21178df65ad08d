#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs tests by ctest and says at the end what failed, and why. With --again a test that failed is run again, alone, twice: if it passes both
times it is flaky, which is named and is no failure. A crash, a sanitizer's report, wrong bytes and a hang are never flaky.

    run_tests.py --name NAME [--to FOLDER] [--again] [--no-skips] -- CTEST-ARGUMENTS...

NAME is for the files: build/NAME-tests.log has the whole run, build/NAME-failures one file for each test that failed, with all its output, and
build/NAME-costs.txt what each test took, most first: seconds of CPUs, seconds by the clock. With --no-skips a test that did not run is a failure.
The last line is ctest's closing summary, after the runs again.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RUNS_AGAIN = 2
MAX_AGAIN = 8       # where more have failed, something is broken: nothing is run again
LINES_SHOWN = 40     # of each failure, at the end; its file has all
WHOLE = ["--test-output-size-failed", str(64 << 20)]  # ctest cuts a failure's output otherwise

# What is never flaky, by what the test said or by what ctest says of its end. The tests' own words are HUNG:, CRASHED: and WRONG:, or a checked
# expression that compares bytes.
GRAVE = (
    ("a sanitizer's report", r"ERROR: (Address|Leak|Memory)Sanitizer|WARNING: ThreadSanitizer|SUMMARY: \w*Sanitizer|: runtime error: |"
                             r"ERROR SUMMARY: [1-9]\d* errors"),
    ("a crash", r"CRASHED:|\*\*\*Exception|fatal error condition|(ended|killed) by signal (?!9\b|15\b)\d|Segmentation fault|core dumped|"
                r"exit code (-(4|6|7|8|11)|13[2-9])\b|\bSIG(SEGV|BUS|ABRT|FPE|ILL|SYS)\b|Assertion .* failed"),
    ("wrong bytes", r"WRONG\b|\b(holds|untouched|memcmp|bytes_at)\(|std::equal\(|ImmediateData|_intact\(|"
                    r"(?i:\b(wrong|corrupt(ed)?|mismatch(ed|ing)?|different|differing)\b[^\n]*\b(bytes?|data|contents?|payloads?)\b|"
                    r"\b(bytes?|data|contents?|payloads?)\b[^\n]*\b(wrong|corrupt(ed)?|mismatch(ed|es)?|differs?)\b|[1-9]\d* corrupt\b)"),
    ("a hang", r"HUNG:|hung and was killed|\*\*\*Timeout"),
)
# Lines that say why; of the library's own log there may be much between them.
CAUSE = re.compile(r"FAILED\b|FAIL |WRONG|HUNG:|CRASHED:|ERROR: |WARNING: |SUMMARY: |[a-z]: error:|runtime error:|fatal error condition|not so$|"
                   r"^\w*Error: |^\w+\.\w+:\d+: ")
RESULT = re.compile(r"^ *\d+/\d+ +Test +#\d+: (\S+) \.*(.*?) +[\d.]+ sec")


class Test:
    """How a test ended. `end` is how ctest's line has it; JUnit says what kind of end that is: passed, failed, skipped, or kept from running by
    a test that it depends on."""

    def __init__(self, case, end):
        skipped = case.find("skipped")
        message = "" if skipped is None else skipped.get("message")
        self.name = case.get("name")
        self.output = case.findtext("system-out") or ""
        self.end = " ".join(end.replace(".", " ").split()) or message or case.get("status")
        self.kind = "failed"
        if case.get("status") == "run":
            self.kind = "passed"
        elif case.get("status") == "disabled" or message.startswith("SKIP_"):
            self.kind = "skipped"
        elif "dependency" in message:
            self.kind = "kept"
        self.reason = self.file = None

    def grave(self):
        """What it is that is never flaky; None if it may be."""
        text = self.end + "\n" + self.output
        return next((what for what, words in GRAVE if re.search(words, text)), None)

    def causes(self):
        """The lines that say why it failed, or else its last ones."""
        lines = [line for line in self.output.splitlines() if line.strip() and not line.startswith("vipl[")]
        shown, until = [], -1
        for i, line in enumerate(lines):
            if CAUSE.search(line):
                until = i + 4
            if i <= until:
                shown.append(line)
        return (shown or lines[-9:])[:LINES_SHOWN]

    def cause(self):
        """In one line."""
        return next(iter(self.causes()), self.end).strip()[:200]

    def write(self, path):
        """All that it said."""
        with open(path, "w", encoding="utf-8") as file:
            file.write("%s: %s\n%s" % (self.name, self.end, self.output))


def ctest(arguments, junit, log):
    """Runs it, shown and kept: the tests by name, and the exit code."""
    if os.path.exists(junit):
        os.remove(junit)
    ends = {}
    process = subprocess.Popen(["ctest"] + WHOLE + arguments + ["--output-junit", junit], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, encoding="utf-8", errors="replace", cwd=TOP)
    for line in process.stdout:
        log.write(line)
        print(line, end="", flush=True)
        match = RESULT.match(line)
        if match:
            ends[match.group(1)] = match.group(2)
    code = process.wait()
    cases = xml.parse(junit).iter("testcase") if os.path.exists(junit) else ()
    return {case.get("name"): Test(case, ends.get(case.get("name"), "")) for case in cases}, code


def selected(arguments, name):
    """ctest's arguments, with that test alone in place of what chose it, and one at a time."""
    kept, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word in ("-R", "-E", "-L", "-LE", "-j", "-I", "--repeat", "--output-junit", "--rerun-failed"):
            skip = word != "--rerun-failed"
        else:
            kept.append(word)
    return kept + ["-R", "^%s$" % re.escape(name), "-j", "1"]


class Run:
    def __init__(self, options, arguments):
        self.arguments = arguments
        self.again = options.again
        self.no_skips = options.no_skips
        self.folder = os.path.join(options.to, options.name + "-failures")
        self.log_path = os.path.join(options.to, options.name + "-tests.log")
        self.junit = os.path.join(options.to, options.name + "-tests.xml")
        self.costs = os.path.abspath(os.path.join(options.to, options.name + "-costs.txt"))
        if "--output-junit" in arguments:
            at = arguments.index("--output-junit")
            self.junit = os.path.abspath(arguments[at + 1])
            self.arguments = arguments[:at] + arguments[at + 2:]

    def keep(self, test, which=""):
        os.makedirs(self.folder, exist_ok=True)
        test.file = os.path.relpath(os.path.join(self.folder, test.name.replace("/", "_") + which + ".txt"), TOP)
        test.write(os.path.join(TOP, test.file))

    def passes_again(self, test, log):
        """Whether it passes as often as is asked, alone; else the test's reason says what it did."""
        for which in range(1, RUNS_AGAIN + 1):
            print("run_tests: %s again, alone, %d of %d" % (test.name, which, RUNS_AGAIN), flush=True)
            found, code = ctest(selected(self.arguments, test.name), self.junit + ".again", log)
            second = found.get(test.name)
            if code != 0 or second is None or second.kind != "passed":
                test.reason = "failed again"
                if second is not None:
                    self.keep(second, ".%d" % which)
                    test.reason += (": " + second.grave() if second.grave() else "") + ", whole output: " + second.file
                return False
        return True

    def judge(self, failed, log):
        """Those that are flaky, and those that are not. Where one is not, nothing is run again any more: it makes no difference."""
        for test in failed:
            self.keep(test)
            test.reason = test.grave() or test.kind
        red = [test for test in failed if test.grave()]
        flaky = []
        for test in failed:
            if test not in red:
                may_be = self.again and not red and len(failed) <= MAX_AGAIN
                (flaky if may_be and self.passes_again(test, log) else red).append(test)
        return flaky, red

    def sort_costs(self):
        """The lines that tests/support/limit.py has written, and their sums."""
        rows = []
        if os.path.exists(self.costs):
            with open(self.costs, encoding="utf-8") as file:
                rows = sorted((line.split() for line in file), key=lambda row: -float(row[0]))
        sums = ["%.2f" % sum(float(row[column]) for row in rows) for column in (0, 1)]
        with open(self.costs, "w", encoding="utf-8") as file:
            file.writelines("%8s %8s %s\n" % tuple(row) for row in rows + [sums + ["all"]])

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.dirname(self.log_path), exist_ok=True)
        if os.path.exists(self.costs):
            os.remove(self.costs)
        os.environ["VIPL_TEST_COSTS"] = self.costs
        with open(self.log_path, "w", encoding="utf-8") as log:
            tests, code = ctest(self.arguments, self.junit, log)
            del os.environ["VIPL_TEST_COSTS"]
            self.sort_costs()
            failed = [test for test in tests.values() if test.kind in ("failed", "kept")]
            skipped = [test for test in tests.values() if test.kind == "skipped" and self.no_skips]
            nothing = not tests or (code != 0 and not failed)
            if not failed and not skipped and not nothing:
                return 0
            flaky, red = self.judge(failed, log)
            account = self.account(len(tests), flaky, red, skipped, nothing)
            log.write(account)
        print(account, end="")
        return 1 if red or skipped or nothing else 0

    @staticmethod
    def account(ran, flaky, red, skipped, nothing):
        """The end of the output."""
        lines = [""]
        for test in red:
            lines += ["FAILED %s (%s; whole output: %s)" % (test.name, test.reason, test.file)] + ["    " + line[:200] for line in test.causes()]
        lines += ["SKIPPED %s: %s" % (test.name, test.cause()) for test in skipped]
        lines += ["FLAKY %s (first failure: %s; whole output: %s)" % (test.name, test.cause(), test.file) for test in flaky]
        if nothing:
            lines += ["FAILED: ctest itself, or there was no test"]
        bad = len(red) + len(skipped) + nothing
        lines += ["", "%d%% tests passed, %d tests failed out of %d" % (min(99, 100 * (ran - bad) // ran) if bad and ran else 100 * (not bad), bad, ran)]
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--to", default=os.path.join(TOP, "build"), help="the folder for the files, in place of build")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--no-skips", action="store_true")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    return Run(parser.parse_args(sys.argv[1:split]), sys.argv[split + 1:]).run()


if __name__ == "__main__":
    sys.exit(main())
