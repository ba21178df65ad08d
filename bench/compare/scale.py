# SPDX-License-Identifier: MIT
"""What many connections cost: tables of this library's own programs, as they print them."""
import os
import subprocess

COMMANDS = ("vipl-bench-connections --device loopback --pairs 32000",
            "vipl-bench-connections --device loopback --pairs 64000 --between",
            "vipl-bench-connections --device tcp:127.0.0.1 --pairs 4500",
            "vipl-bench-connections --device tcp:127.0.0.1 --pairs 9000 --between",
            "vipl-bench-cq-scale --device loopback --vis 2000",
            "vipl-bench-cq-scale --device loopback --vis 32000",
            "vipl-bench-shared-vis")


def measure(build):
    """[[command, what it printed], ...]"""
    tables = []
    for command in COMMANDS:
        program, *arguments = command.split()
        done = subprocess.run([os.path.join(build, "bin", program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=600, check=False)
        tables.append([command, done.stdout.rstrip() + ("" if done.returncode == 0 else "\nexit code %d" % done.returncode)])
    return tables


def show(tables):
    lines = ["", "## Many connections", "", "A VI's memory, what one takes to connect and to disconnect as they become many, and a message when its queue has many",
             "VIs."]
    for command, text in tables:
        lines += ["", "`%s`" % command, "", "```", text, "```"]
    return lines
