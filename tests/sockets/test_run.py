# SPDX-License-Identifier: MIT
"""vipl-run: options, what the program finds in its environment, programs that it cannot help, exit codes and signals, counts.

test_run.py FOLDER-OF-THE-PROGRAMS"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "support"))
from toolrun import Checks, LIMIT_S, Result, directory, run  # noqa: E402

USER = 65534
checks = Checks()
tool = os.path.join(directory(), "vipl-run")
library = os.path.join(directory(), "..", "lib", "libvipl-sockets.so")
real = os.path.realpath(library)


def write(folder, name, text, mode=0o755):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def environment_of(result):
    return dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)


def usage():
    checks.common_options(tool)
    checks.code(run(tool), 2, "no program")
    checks.code(run(tool, "--stats-of", "1", "true"), 2, "--stats-of and a program")
    checks.code(run(tool, "--stats-of", "one"), 2, "--stats-of without a number")
    checks.code(run(tool, "--rules", "/nowhere/rules", "true"), 2, "rules that are not there")


def environment(folder):
    rules = write(folder, "rules", "tcp connect * *:*\n", 0o644)
    result = run(tool, "env")
    checks.code(result, 0, "env")
    checks.that(result.err == "", "nothing is said", result)
    seen = environment_of(result)
    checks.that(seen.get("LD_PRELOAD") == real, "the library is loaded", result)
    checks.that("VIPL_SOCKETS_STATS" not in seen, "no counts are asked for", result)
    other = "/lib/not-there.so"
    # env is started without the other library in this process's own environment
    result = run("sh", "-c", 'LD_PRELOAD=%s exec "$0" "$@" 2>&1' % other, tool, "--rules", os.path.relpath(rules), "--device", "tcp", "env",
                 "--", "printenv", "LD_PRELOAD", "VIPL_SOCKETS_RULES", "VIPL_SOCKETS_DEVICE")
    lines = [line for line in result.out.splitlines() if not line.startswith("ERROR: ld.so")]
    checks.that(lines == [real + ":" + other, os.path.realpath(rules), "tcp"],
                "the program's own libraries, the rules' whole path, and the device", result)
    result = run(tool, "sh", "-c", "echo $$ -s --stats \"$@\"", "sh", "--stats", "-d")
    checks.that(re.match(r"\d+ -s --stats --stats -d\n", result.out) is not None, "the program's options are its own", result)


def ends(folder):
    checks.code(run(tool, "sh", "-c", "exit 7"), 7, "the program's exit code")
    checks.code(run(tool, "sh", "-c", "kill -TERM $$"), -signal.SIGTERM, "the program's signal")
    checks.code(run(tool, os.path.join(folder, "nothing")), 127, "a missing program")
    checks.code(run(tool, "no-such-program-anywhere"), 127, "a missing program in PATH")
    checks.code(run(tool, ""), 127, "an empty name")
    checks.code(run(tool, folder), 126, "a folder")
    plain = write(folder, "plain", "true\n", 0o644)
    checks.code(run(tool, plain), 126, "a file that is no program")
    result = run(tool, "plain-too", env={"PATH": folder + ":" + os.environ["PATH"]})
    checks.code(result, 127, "a name that is no program")
    write(folder, "named", "#!/bin/sh\necho $0\n")
    result = run(tool, "named", env={"PATH": "/nowhere:" + folder})
    checks.that(result.out == os.path.join(folder, "named") + "\n", "a program is found in PATH", result)
    child = subprocess.Popen([tool, "sh", "-c", "echo $$; exec cat"], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    checks.that(int(child.stdout.readline()) == child.pid, "the program is the process that was started")
    child.send_signal(signal.SIGUSR1)
    checks.that(child.wait(LIMIT_S) == -signal.SIGUSR1, "a signal goes to the program")


def static_copy(folder, name):
    """A program that names no dynamic linker: a copy of one, whose header of that kind is another one."""
    with open(shutil.which("true"), "rb") as file:
        data = bytearray(file.read())
    wide, order = data[4] == 2, "little" if data[5] == 1 else "big"
    start = int.from_bytes(data[32:40] if wide else data[28:32], order)
    size = int.from_bytes(data[54:56] if wide else data[42:44], order)
    count = int.from_bytes(data[56:58] if wide else data[44:46], order)
    for i in range(count):
        at = start + i * size
        if int.from_bytes(data[at:at + 4], order) == 3:
            data[at:at + 4] = (0x6FFFFFF0).to_bytes(4, order)
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, 0o755)
    return path


def as_user():
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def run_as_user(*command):
    done = subprocess.run(command, preexec_fn=as_user, timeout=LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={"PATH": "/usr/bin:/bin"})
    return Result(done.returncode, done.stdout, done.stderr)


def no_help(folder):
    static = static_copy(folder, "static")
    result = run(tool, static)
    checks.that("static program" in result.err and static in result.err, "a static program cannot be helped", result)
    for first in ("#!" + static, "#! " + static + " -x", "#!" + write(folder, "between", "#!%s\n" % static)):
        script = write(folder, "script", first + "\n")
        result = run(tool, script)
        checks.that("static program" in result.err and static in result.err, "a script of a static program: " + first, result)
    for script in ("#!/bin/sh\n", "#!/usr/bin/env sh\n"):
        result = run(tool, write(folder, "script", script + "printenv LD_PRELOAD\n"))
        checks.that(result.out == real + "\n" and result.err == "", "a script of a dynamic program", result)
    with open(shutil.which("true"), "rb") as file:
        data = bytearray(file.read())
    data[18] ^= 0x40 # the machine
    other = os.path.join(folder, "other")
    with open(other, "wb") as file:
        file.write(data)
    os.chmod(other, 0o755)
    result = run(tool, other)
    checks.code(result, 126, "a program of another CPU")
    checks.that("another CPU" in result.err, "a program of another CPU cannot be helped", result)
    if os.geteuid() != 0:
        print("not root: no set-user-ID program is made")
        return
    os.chmod(folder, 0o755)
    for mode, helps in ((0o755, True), (0o4755, False), (0o2755, False), (0o2745, True)):
        path = os.path.join(folder, "env")
        shutil.copy(shutil.which("env"), path)
        os.chmod(path, mode)
        result = run_as_user(tool, path)
        checks.code(result, 0, "a program of mode %o" % mode)
        checks.that(("more rights than its user" not in result.err) == helps, "a program of mode %o" % mode, result)
        checks.that((real in result.out) == helps, "the library of a program of mode %o" % mode, result)


def installed(folder):
    """A copy finds the library beside itself, or says that there is none."""
    alone = os.path.join(folder, "alone", "bin")
    os.makedirs(alone)
    copy = shutil.copy(tool, alone)
    result = run(copy, "env")
    checks.code(result, 0, "a copy without the library")
    checks.that("libvipl-sockets.so is not" in result.err and "LD_PRELOAD" not in environment_of(result),
                "a missing library is told, and the program runs", result)
    beside = os.path.join(folder, "alone", "lib")
    os.mkdir(beside)
    shutil.copy(library, beside)
    result = run(copy, "env")
    checks.that(environment_of(result).get("LD_PRELOAD") == os.path.join(beside, "libvipl-sockets.so"), "the library beside it", result)
    blank = os.path.join(folder, "a blank")
    shutil.copytree(os.path.join(folder, "alone"), blank)
    result = run(os.path.join(blank, "bin", "vipl-run"), "env")
    checks.that("has a blank" in result.err and "LD_PRELOAD" not in environment_of(result), "a path with a blank", result)


ECHO = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(os.getpid(), listener.getsockname()[1], flush=True)
while True:
    connection = listener.accept()[0]
    data = connection.recv(100)
    connection.sendall(data)
    connection.close()
    if data == b"end":
        break
"""
ASK = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.argv[2].encode())
assert connection.recv(100) == sys.argv[2].encode()
assert connection.recv(100) == b""
"""


def counted(result, moved, plain):
    """Whether the last lines of the standard error output are these counts, with the reasons for so many lines."""
    lines = result.err.splitlines()
    head = re.compile(r"vipl-run: python3?[0-9.]*\[\d+\]: moved %d, plain %d, failed 0$" % (moved, plain))
    at = [i for i, line in enumerate(lines) if head.match(line)]
    return len(at) == 1 and all(re.match(r"vipl-run:   \d+ plain: \w", line) for line in lines[at[0] + 1:])


class Echo:
    """A server that answers each client once."""
    def __init__(self, *before):
        self.process = subprocess.Popen([*before, sys.executable, "-c", ECHO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid, self.port = self.process.stdout.readline().split()

    def ask(self, *before, word="word"):
        return run(*before, sys.executable, "-c", ASK, self.port, word)

    def end(self):
        out, err = self.process.communicate(timeout=LIMIT_S)
        return Result(self.process.returncode, out, err)


def counts(folder):
    for device in ((), ("--device", "tcp:127.0.0.1")):
        server = Echo(tool, "--stats", *device)
        result = server.ask(tool, "--stats", *device)
        checks.code(result, 0, "a client whose connection is moved")
        checks.that(counted(result, 1, 0), "a client's connection is moved", result)
        result = server.ask()
        checks.code(result, 0, "a plain client")
        result = run(tool, "--stats-of", server.pid)
        checks.code(result, 0, "--stats-of")
        checks.that(counted(Result(0, "", result.out), 1, 1) and "1 plain: the peer does not use VIPL" in result.out,
                    "counts of a running process", result)
        result = server.ask(tool, "--stats", *device, word="end")
        checks.that(counted(result, 1, 0), "a client's connection is moved", result)
        result = server.end()
        checks.that(counted(result, 2, 1), "the server's counts at its end", result)
    server = Echo()
    result = server.ask(tool, "--stats")
    checks.that(counted(result, 0, 1) and "1 plain: no VIPL program listens at the port" in result.err, "a plain server", result)
    result = run(tool, "--stats-of", server.pid)
    checks.code(result, 1, "--stats-of a plain process")
    server.ask(word="end")
    server.end()
    wrong = write(folder, "wrong", "vipl connect * *:*\nvipl connects * *:*\n", 0o644)
    server = Echo(tool, "--stats")
    result = server.ask(tool, "--stats", "--rules", wrong, word="end")
    checks.code(result, 0, "a wrong rules file")
    checks.that(counted(result, 0, 1) and "%s:2: " % os.path.realpath(wrong) in result.err, "its line is named, and the program runs on TCP", result)
    server.end()
    result = run(tool, "--stats", "true")
    checks.that(re.match(r"vipl-run: true\[\d+\]: moved 0, plain 0, failed 0\n$", result.err) is not None, "a program without connections", result)


def main(folder):
    usage()
    counts(folder)
    environment(folder)
    ends(folder)
    no_help(folder)
    installed(folder)


with tempfile.TemporaryDirectory(prefix="vipl-run-") as temporary:
    main(temporary)
checks.finish()
