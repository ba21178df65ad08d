# SPDX-License-Identifier: MIT
"""ssh, whose server speaks first, executes itself again and forks between the first bytes and the others: it works, moved or not."""
import getpass
import os

from peers import pattern

CONFIGURATION = """
Port %(port)d
ListenAddress 127.0.0.1
HostKey %(folder)s/host
AuthorizedKeysFile %(folder)s/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
"""


def run(machine, _options):
    sshd = machine.need("sshd", "ssh", "ssh-keygen")[0]
    folder, port = machine.make_folder("ssh"), machine.port()
    for name in ("host", "user"):
        machine.run("tool", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(folder, name), as_user=False)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    text = machine.make_file("ssh/conf", CONFIGURATION % {"port": port, "folder": folder})
    # A login as another user needs root, and root may have no shell for others: the user is this test's.
    server = machine.start("server", sshd, "-D", "-e", "-f", text, as_user=False)
    machine.await_port(server, port)
    words = ["ssh", "-F", "none", "-i", os.path.join(folder, "user"), "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
             "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "%s@127.0.0.1" % getpass.getuser()]
    contents = pattern.data("ssh", (50 if machine.full else 3) << 20)
    path = machine.make_file("contents", contents)
    for _ in range(5 if machine.full else 1):
        machine.run("client", *words, "cat >%s/copy && exit 0" % folder, text=path, as_user=False)
        with open(os.path.join(folder, "copy"), "rb") as file:
            machine.checks.that(file.read() == contents, "WRONG contents of what is sent")
        back = machine.run("client", *words, "cat %s" % path, as_user=False)
        with open(back.out_path, "rb") as file:
            machine.checks.that(file.read() == contents, "WRONG contents of what is received")
    told = machine.run("client", *words, "echo out; echo err >&2; exit 7", code=7, as_user=False)
    machine.checks.that(told.out == "out\n" and "err\n" in told.err, "two outputs and a code: " + told.told())
    machine.checks.that(server.stop() in (0, 255), "sshd ends at SIGTERM: " + server.told())
    for end in machine.preloaded:
        print("%s: %s" % (end, machine.statistics(end)))
