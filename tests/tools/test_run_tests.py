# SPDX-License-Identifier: MIT
"""tools/run_tests.py: what fails once is flaky and is named; a crash, a sanitizer's report, wrong bytes, a hang and a second failure are not:
test_run_tests.py. Each project below is planted with tests that are small shell programs."""
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
support, tools = os.path.join(here, "..", "support"), os.path.join(here, "..", "..", "tools")
sys.path[:0] = [support, tools]
import run_tests  # noqa: E402
from checks import Checks  # noqa: E402

LIMIT = "%s -I -S %s 1" % (sys.executable, os.path.join(support, "limit.py"))  # a second of the test's own time
ONCE = 'n=$(cat %s 2>/dev/null || echo 0); echo $((n + 1)) >%s; [ $((n %% 3)) -gt 0 ] && exit 0; '
checks = Checks()


def project(folder, tests, properties=""):
    """A ctest project, with programs that are shell text."""
    with open(os.path.join(folder, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
        for name, text in tests.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as program:
                program.write(text.replace("ONCE", ONCE % (path + ".n", path + ".n")))
            command = " ".join('"%s"' % word for word in (LIMIT + " sh " + path).split())
            file.write('add_test("%s" %s)\nset_tests_properties("%s" PROPERTIES SKIP_RETURN_CODE 77)\n' % (name, command, name))
        file.write(properties)


class Result:
    """Of a run of these tests, with these options."""

    def __init__(self, tests, options=("--again", "--no-skips"), properties=""):
        with tempfile.TemporaryDirectory() as folder:
            project(folder, tests, properties)
            done = subprocess.run([sys.executable, "-B", os.path.join(tools, "run_tests.py"), "--name", "planted", "--to", folder, *options,
                                   "--", "--test-dir", folder, "-j", "4"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  universal_newlines=True, check=False)
            self.code, self.out = done.returncode, done.stdout
            self.last = [line for line in done.stdout.splitlines() if "tests passed" in line][-1]
            with open(os.path.join(folder, "planted-costs.txt"), encoding="utf-8") as file:
                self.costs = [line.split() for line in file]
            self.files = {}
            for top, _, names in os.walk(os.path.join(folder, "planted-failures")):
                for name in names:
                    with open(os.path.join(top, name), encoding="utf-8") as file:
                        self.files[name] = file.read()


def is_green(what, result, last, *texts):
    checks.that(result.code == 0 and result.last == last and all(text in result.out for text in texts),
                "%s: %d, %s\n%s" % (what, result.code, result.last, result.out))


def is_red(what, result, last, *texts):
    checks.that(result.code == 1 and result.last == last and all(text in result.out for text in texts) and "FLAKY" not in result.out,
                "%s: %d, %s\n%s" % (what, result.code, result.last, result.out))


GOOD = {"good": "exit 0"}

# Once in three times.
flaky = Result({**GOOD, "now_and_then": 'ONCE yes noise | head -n 200000; echo "late.cpp:7: EXPECT(in_time)"; exit 1'})
is_green("a flake", flaky, "100% tests passed, 0 tests failed out of 2", "FLAKY now_and_then (first failure: late.cpp:7: EXPECT(in_time)")
checks.that(flaky.files.get("now_and_then.txt", "").count("noise") == 200000, "all output of a first failure is kept: %s" % list(flaky.files))
is_red("where nothing is run again", Result({**GOOD, "now_and_then": "ONCE exit 1"}, ()), "50% tests passed, 1 tests failed out of 2", "FAILED now_and_then")
kept = 'set_tests_properties(good PROPERTIES FIXTURES_SETUP f)\nset_tests_properties(after PROPERTIES FIXTURES_REQUIRED f)\n'
is_green("one that a flake kept from running", Result({"good": "mkdir $0.been || exit 0; exit 1", "after": "exit 0"}, properties=kept),
         "100% tests passed, 0 tests failed out of 2", "FLAKY good")
costs = Result({**GOOD, "busy": "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"}).costs
checks.that(len(costs) == 3 and float(costs[0][0]) > float(costs[1][0]) and costs[2][2] == "all", "what each test took, most first: %s" % costs)

# What is red although it would pass the next time.
for what, text, why in (
        ("AddressSanitizer", "echo '==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1'; exit 1", "a sanitizer's report"),
        ("a segmentation fault", "kill -SEGV $$", "a crash"),
        ("a wrong byte", "echo 'exchange.hpp:339: EXPECT(parts.holds(item, bytes))'; exit 1", "wrong bytes"),
        ("a program that does not end", "while :; do :; done", "a hang")):
    is_red(what, Result({**GOOD, "bad": "ONCE " + text}), "50% tests passed, 1 tests failed out of 2", "FAILED bad (%s;" % why)
for said, end, why in (
        ("a.c:3:7: runtime error: signed integer overflow", "***Failed", "a sanitizer's report"),
        ("WARNING: ThreadSanitizer: data race (pid=7)", "***Failed", "a sanitizer's report"),
        ("==7== ERROR SUMMARY: 2 errors from 1 contexts", "***Failed", "a sanitizer's report"),
        ("", "Subprocess aborted***Exception:", "a crash"),
        ("CRASHED: limit.py: ended by signal 9 (Killed)", "***Failed", "a crash"),
        ("due to a fatal error condition:", "***Failed", "a crash"),
        ("[client] the child process ended by signal 11 (Segmentation fault) without a report", "***Failed", "a crash"),
        ("FAILED: vipl-ping: exit code -11, not 0", "***Failed", "a crash"),
        ("REQUIRE( std::memcmp(a, b, 8) == 0 )", "***Failed", "wrong bytes"),
        ("WRONG: byte 17 is 0x3, not 0x4", "***Failed", "wrong bytes"),
        ("data mismatch at offset 4096", "***Failed", "wrong bytes"),
        ("10000 sent, 9999 intact, 0 lost, 1 corrupt", "***Failed", "wrong bytes"),
        ("HUNG: a case", "***Failed", "a hang"),
        ("", "***Timeout", "a hang"),
        ("10000 sent, 9999 intact, 1 lost, 0 corrupt", "***Failed", None),
        ("impair: seed=7,corrupt=0.01", "***Failed", None),
        ("test_plan.cpp:7: EXPECT(in_time)", "***Failed", None),
        ("the peer was ended by signal 9 (Killed)", "***Failed", None)):
    case = run_tests.xml.Element("testcase", name="a", status="fail")
    run_tests.xml.SubElement(case, "system-out").text = said
    found = run_tests.Test(case, end).grave()
    checks.that(found == why, "%s, %s: %s" % (said, end, found))
is_red("what fails twice", Result({**GOOD, "bad": "exit 3"}), "50% tests passed, 1 tests failed out of 2", "FAILED bad (failed again")
is_red("what crashes the second time", Result({**GOOD, "bad": "mkdir $0.been || kill -SEGV $$; exit 1"}), "50% tests passed, 1 tests failed out of 2",
       "FAILED bad (failed again: a crash, whole output: ")
is_red("a skipped test", Result({**GOOD, "skip": "echo no network; exit 77"}), "50% tests passed, 1 tests failed out of 2", "SKIPPED skip: no network")
is_green("a skipped test, where it may be", Result({**GOOD, "skip": "exit 77"}, ("--again",)), "100% tests passed, 0 tests failed out of 2")
is_red("none at all", Result({}), "0% tests passed, 1 tests failed out of 0", "there was no test")
many = {"bad%d" % i: "ONCE exit 1" for i in range(run_tests.MAX_AGAIN + 1)}
is_red("many at once", Result(many), "0%% tests passed, %d tests failed out of %d" % (len(many), len(many)))

# Several runs.
with tempfile.TemporaryDirectory() as folder:
    project(folder, {**GOOD, "now_and_then": "ONCE echo 'late.cpp:7: EXPECT(in_time)'; exit 1"})
    done = subprocess.run([sys.executable, "-B", os.path.join(tools, "flaky.py"), "--to", os.path.join(folder, "kept"), "4", "--", "--test-dir", folder],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    checks.that(done.returncode == 1 and "  2 of 4  now_and_then\n    late.cpp:7: EXPECT(in_time) (" in done.stdout and
                "flaky: 1 tests failed at least once" in done.stdout, "rates: " + done.stdout)
    checks.that(sorted(name for name in os.listdir(os.path.join(folder, "kept")) if name.endswith(".txt")) ==
                ["now_and_then.1.txt", "now_and_then.4.txt"], "the outputs are kept")

checks.finish()
