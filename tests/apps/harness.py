# SPDX-License-Identifier: MIT
"""What the tests with unmodified programs share: a folder, a user, free ports, and processes that all end with the test.

A program is one of two ends, "client" or "server". Which of the ends run under vipl-run is the test's argument: both, client, server, or
neither, which is plain TCP and shows that a test is right. As root the programs run as nobody, because PostgreSQL refuses root, and because
both ends must have the same user for a connection to be moved. Each wait is for an event, and has a limit.
"""
import ctypes
import fcntl
import glob
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from checks import Checks  # noqa: E402
from limit import processes_of  # noqa: E402

import stats  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))
LIMIT_S = 60 * SCALE  # of one wait; far above what any needs
PATIENT = {"VIPL_SOCKETS_JOIN_MS": "60000"}  # on a busy machine many connections at once take more than two seconds, which is for users
STEP_S = 0.01          # between two looks at what has no descriptor to wait for
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
USER = "nobody"
SEARCHED = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class Failed(Exception):
    """The test cannot go on."""


def cannot_run(reason):
    """Ends the test: as a failure in the continuous integration, else as skipped."""
    print("cannot run: " + reason)
    sys.exit(1 if os.environ.get("CI") == "true" else 77)


def is_reachable(path):
    """Whether any user can come to that file: a checkout may be in a folder of root's."""
    path = os.path.realpath(path)
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


def enter_own_network():
    """As root: ports and names that no other test uses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET) != 0:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sH14x", b"lo", IFF_UP)
        fcntl.ioctl(one, SIOCSIFFLAGS, request)


def wait_until(what, condition, seconds=None):
    """Looks until the condition holds: its value."""
    end = time.monotonic() + (seconds or LIMIT_S)
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed("HUNG: %s: not within %d s" % (what, seconds or LIMIT_S))
        time.sleep(STEP_S)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Process:
    """A program that runs; its output is in two files."""

    def __init__(self, popen, name, out, err):
        self.popen, self.name, self.out_path, self.err_path = popen, name, out, err
        self.pid = popen.pid

    @property
    def code(self):
        return self.popen.poll()

    @property
    def out(self):
        return text_of(self.out_path)

    @property
    def err(self):
        return text_of(self.err_path)

    def told(self):
        """Its end and the last that it said, for a failure."""
        return "%s ended with %s\n--- out: %s\n--- err: %s" % (self.name, self.popen.returncode, self.out[-1500:], self.err[-3000:])

    def wait(self, seconds=None):
        try:
            return self.popen.wait(seconds or LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed("HUNG: %s has not ended within %d s\n%s" % (self.name, seconds or LIMIT_S, self.told())) from None

    def wait_text(self, part):
        """Until its output or its errors have that text; returns the whole output."""
        def found():
            if part in self.out or part in self.err:
                return True
            if self.code is not None and part not in self.out + self.err:
                raise Failed("before it said \"%s\": %s" % (part, self.told()))
            return False
        wait_until('%s says "%s"' % (self.name, part), found)
        return self.out

    def stop(self, number=signal.SIGTERM):
        """Asks it to end, and waits."""
        if self.code is None:
            self.popen.send_signal(number)
        return self.wait()

    def family(self):
        """The process and all below it: {pid: what limit.stat_of() tells}."""
        return processes_of(self.pid)


class Machine:
    """Where one test runs. `with Machine(...) as machine:` ends all processes, and removes the folder."""

    def __init__(self, binaries, ends, full):
        self.ends, self.full = ends, full
        self.preloaded = {"both": ("client", "server"), "client": ("client",), "server": ("server",), "neither": ()}[ends]
        self.checks = Checks()
        self.settings = {}  # more of the environment of the programs that are started from now on
        self.user = pwd.getpwnam(USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self.binaries = self.built = os.path.abspath(binaries)
        self.count = 0
        self.started = []
        self.last_port = 20000 + os.getpid() % 10000

    def __enter__(self):
        if self.preloaded and not os.path.exists(os.path.join(self.binaries, "vipl-run")):
            cannot_run("there is no %s" % os.path.join(self.binaries, "vipl-run"))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        enter_own_network()
        self.folder = tempfile.mkdtemp(prefix="vipl-apps-", dir="/var/tmp")
        os.chmod(self.folder, 0o711)
        self.runtime, self.temporary = self.make_folder("runtime"), self.make_folder("tmp")
        self.peers = os.path.join(HERE, "peers")
        self.python = sys.executable
        if os.geteuid() == 0:
            self.python = self.python if is_reachable(self.python) else "/usr/bin/python3"
            if not is_reachable(self.peers):
                self.peers = self._copy_peers()
            if self.preloaded and not is_reachable(self.binaries):
                self.binaries = self._copy_runner()
        self.rules = self.make_file("rules", "vipl connect * *:*\n")  # also connections that are short
        self.runner = [os.path.join(self.binaries, "vipl-run"), "--stats"]
        return self

    def __exit__(self, *_):
        self._end_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _end_all():
        """Until nothing is below this process: a server whose child is killed first may start another one."""
        while True:
            below = [pid for pid in processes_of(os.getpid()) if pid != os.getpid()]
            for pid in below:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0] != 0:
                    pass
            except ChildProcessError:
                pass
            if not below:
                return
            time.sleep(STEP_S)

    def _copy_peers(self):
        """A folder that the programs' user can come to."""
        copy = os.path.join(self.folder, "peers")
        shutil.copytree(self.peers, copy)
        return copy

    def _copy_runner(self):
        """vipl-run and its library, in folders that the programs' user can come to, each beside the other as they were."""
        build, copy = os.path.dirname(os.path.abspath(self.binaries)), os.path.join(self.folder, "build")
        for pattern in ("bin/vipl-run", "bin/libvipl*", "lib/libvipl*", "libvipl*", "libexec/vipl-*"):
            for path in glob.glob(os.path.join(build, pattern)):
                target = os.path.join(copy, os.path.relpath(path, build))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(path, target)
        return os.path.join(copy, "bin")

    def make_folder(self, name, mode=0o700):
        path = os.path.join(self.folder, name)
        os.mkdir(path, mode)
        self.own(path)
        return path

    def own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def make_file(self, name, contents):
        """A file of the programs' user, with text or bytes: its path."""
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(contents.encode() if isinstance(contents, str) else contents)
        self.own(path)
        return path

    def copied(self, name):
        """A program of this build, where the programs' user can come to."""
        copy = os.path.join(self.folder, name)
        if not os.path.exists(copy):
            shutil.copy(os.path.join(self.built, name), copy)
            os.chmod(copy, 0o755)
        return copy

    def need(self, *programs):
        """The paths of programs that must be installed."""
        missing = [program for program in programs if shutil.which(program, path=SEARCHED) is None]
        if missing:
            cannot_run("not installed: " + " ".join(missing))
        return [shutil.which(program, path=SEARCHED) for program in programs]

    def port(self):
        """One that is free: below those that the system gives to callers, which may take one between this and the server's start."""
        while True:
            self.last_port += 1
            with socket.socket() as one:
                try:
                    one.bind(("127.0.0.1", self.last_port))
                    return self.last_port
                except OSError:
                    pass

    def _become_user(self, switch):
        """What a child does before it starts its program."""
        def change():
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if switch and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(self.user.pw_gid)
                os.setuid(self.user.pw_uid)
        return change

    def command(self, end, words):
        return (self.runner if end in self.preloaded else []) + [str(word) for word in words]

    def peer(self, name, *words):
        """The command of a program of the folder peers."""
        return [self.python, "-B", os.path.join(self.peers, name)] + list(words)

    def start(self, end, *words, env=None, stdin=subprocess.DEVNULL, as_user=True):
        """Starts a program as one of the ends, or as "tool": a program of the test itself, which vipl-run never runs."""
        self.count += 1
        name = "%02d-%s-%s" % (self.count, end, os.path.basename(str(words[0])))
        out, err = (os.path.join(self.folder, name + ending) for ending in (".out", ".err"))
        full = {**os.environ, "PATH": SEARCHED, "LC_ALL": "C", "HOME": self.folder, "XDG_RUNTIME_DIR": self.runtime, "TMPDIR": self.temporary,
                "VIPL_SOCKETS_RULES": self.rules, **self.settings, **(env or {})}
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            popen = subprocess.Popen(self.command(end, words), stdin=stdin, stdout=out_file, stderr=err_file, env=full, cwd=self.folder,
                                     start_new_session=True, preexec_fn=self._become_user(as_user))
        process = Process(popen, name, out, err)
        self.started.append((end, process))
        return process

    def run(self, end, *words, env=None, text=None, code=0, as_user=True, seconds=None):
        """Runs a program to its end, which must be `code`; `text` is a file for its input."""
        stdin = open(text, "rb") if text else subprocess.DEVNULL
        try:
            process = self.start(end, *words, env=env, stdin=stdin, as_user=as_user)
        finally:
            if text:
                stdin.close()
        process.wait(seconds)
        if process.code != code:
            raise Failed("%s: %d, not %d: %s" % (" ".join(map(str, words)), process.code, code, process.told()))
        return process

    def await_port(self, process, port):
        """Until the server listens. No connection is made, which the server would count."""
        wanted = "%04X" % port

        def listens():
            if process.code is not None:
                raise Failed("before it listens: " + process.told())
            for table in ("/proc/net/tcp", "/proc/net/tcp6"):
                if os.path.exists(table):
                    for line in text_of(table).splitlines()[1:]:
                        fields = line.split()
                        if fields[1].endswith(":" + wanted) and fields[3] == "0A":
                            return True
            return False
        wait_until("%s listens" % process.name, listens)

    @staticmethod
    def await_path(process, path):
        """Until the server listens at a Unix socket."""
        listening = re.compile(r" 00010000 \S+ \S+ +\d+ %s$" % re.escape(path), re.M)

        def listens():
            if process.code is not None:
                raise Failed("before it listens: " + process.told())
            return listening.search(text_of("/proc/net/unix"))
        wait_until("%s listens at %s" % (process.name, path), listens)

    def forget(self, process):
        """Of a program that has ended: removes its output, where a test runs very many."""
        self.started = [pair for pair in self.started if pair[1] is not process]
        for path in (process.out_path, process.err_path):
            os.remove(path)

    def statistics(self, end):
        """What vipl-run told of all ended processes of that end."""
        return stats.added(stats.parse(process.err) for which, process in self.started if which == end)

    def check_moved(self, least, plain=0):
        """With both ends under vipl-run, at least so many connections were moved, and at most `plain` were not. With one end under
        vipl-run, none was moved. In no case was one lost."""
        for end in self.preloaded:
            found = self.statistics(end)
            self.checks.that(found.processes > 0, "vipl-run told of the %s" % end)
            self.checks.that(found.failed == 0, "the %s: no connection failed: %s" % (end, found))
            if self.ends == "both":
                self.checks.that(found.moved >= least, "the %s: at least %d connections moved: %s" % (end, least, found))
                self.checks.that(found.plain <= plain, "the %s: at most %d connections stayed plain: %s" % (end, plain, found))
            else:
                self.checks.that(found.moved == 0, "the %s: the other end is a plain program: %s" % (end, found))
            print("%s: %s" % (end, found))


def wakings(pid):
    """How often the threads of a process have slept."""
    return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text_of("/proc/%d/task/%s/status" % (pid, thread)), re.M).group(1))
               for thread in os.listdir("/proc/%d/task" % pid))


def cpu_ticks(processes):
    """The time, in ticks of the system, that processes and what is below them have used so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(round(stat["ran"] * ticks) for process in processes for stat in process.family().values())
