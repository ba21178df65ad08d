# SPDX-License-Identifier: MIT
"""A program with more rights than its user's: what that user's environment names is neither read, written, run nor connected to.

test_privileged.py FOLDER-OF-THE-PROGRAMS; as root, which makes a set-user-ID copy of vipl-info."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, LIMIT_S, Result, directory  # noqa: E402

USER = 65534
SECRET = "password = hunter2\nVIPL_LINGER = seven\n"
checks = Checks()
tool = os.path.join(directory(), "vipl-info")


def as_user():
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def run(program, device, **names):
    environment = {"PATH": "/usr/bin:/bin", **names}
    done = subprocess.run([program, "--device", device], env=environment, preexec_fn=as_user, timeout=LIMIT_S,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return Result(done.returncode, done.stdout, done.stderr)


def main(folder):
    os.chmod(folder, 0o755)
    program = os.path.join(folder, "vipl-info")
    shutil.copy(tool, program)
    os.chmod(program, 0o4755)
    own = os.path.join(folder, "root")
    os.mkdir(own, 0o700)
    new, precious, secret = (os.path.join(own, name) for name in ("new", "precious", "secret"))
    for path, text in ((precious, "original\n"), (secret, SECRET)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    for path in (new, precious):
        result = run(program, "loopback", VIPL_TRACE=path)
        checks.code(result, 0, "VIPL_TRACE")
        checks.that(result.err.count("VIPL_TRACE names a file") == 1, "VIPL_TRACE is ignored, which is said once", result)
    checks.that(not os.path.exists(new), "no trace of root's is made", result)
    with open(precious, encoding="utf-8") as file:
        checks.that(file.read() == "original\n", "no file of root's is appended to", result)

    result = run(program, "loopback", VIPL_CONFIG=secret)
    checks.code(result, 0, "VIPL_CONFIG")
    checks.that("hunter2" not in result.err and "password" not in result.err and "seven" not in result.err,
                "nothing of a file of root's is shown", result)
    checks.that("VIPL_CONFIG names a file" in result.err, "VIPL_CONFIG is ignored, which is said", result)

    result = run(program, "loopback", VIPL_LINGER="soon", VIPL_LOG="error")
    checks.that("VIPL_LINGER=soon is not a number" in result.err, "other settings are the environment's", result)

    with socket.socket(socket.AF_UNIX) as listener:  # the user's own: a card that it would be
        path = os.path.join(folder, "card")
        listener.bind(path)
        listener.listen()
        listener.setblocking(False)
        os.chmod(path, 0o777)
        run_folder = os.path.join(folder, "run")
        os.mkdir(run_folder)
        os.chown(run_folder, USER, USER)
        for names in ({"VIPL_DEVICE": "rnic:socket:" + path}, {"VIPL_DEVICE_ALIASES": "nic0=rnic:socket:" + path},
                      {"VIPL_RNIC": path, "VIPL_DEVICE": "rnic"}, {"XDG_RUNTIME_DIR": run_folder, "VIPL_DEVICE": "rnic"}):
            result = run(program, "nic0", VIPL_RNICD=os.path.join(folder, "daemon"), **names)
            try:
                listener.accept()
                connected = True
            except BlockingIOError:
                connected = False
            checks.that(not connected, "%s is not connected to" % list(names)[0], result)
        checks.that(not os.listdir(run_folder), "nothing is made in the user's XDG_RUNTIME_DIR", result)


if os.geteuid() != 0:
    print("only root can make a set-user-ID program")
    sys.exit(77)
with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
    if os.statvfs(place).f_flag & os.ST_NOSUID:
        print("set-user-ID programs are not allowed here")
        sys.exit(77)
    main(place)
checks.finish()
