# SPDX-License-Identifier: MIT
"""card.py ADAPTER DATA DOC CC: what is installed of the RDMA card serves an author of drivers: the example reads the registers of
the installed adapter by the installed constants, the C header compiles by itself, and the description is the constants'."""
import json
import os
import subprocess
import sys
import tempfile
import time

adapter, data, documents, compiler = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path.insert(0, data)
import registers  # noqa: E402

LIMIT_S = 30


def serves(path):
    return subprocess.run([adapter, "--stats", "--socket", path], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "card")
    card = subprocess.Popen([adapter, "--socket", path, "--mtu", "1234"])
    try:
        until = time.monotonic() + LIMIT_S
        while not serves(path) and card.poll() is None and time.monotonic() < until:
            pass
        example = os.path.join(documents, "examples", "rnic_registers.py")
        text = subprocess.run([sys.executable, "-B", example, path], env=dict(os.environ, PYTHONPATH=data), check=True,
                              timeout=LIMIT_S, stdout=subprocess.PIPE, universal_newlines=True).stdout
    finally:
        card.terminate()
        card.wait(LIMIT_S)
read = {line.split()[1]: int(line.split()[2], 16) for line in text.splitlines()}
assert read["ID"] == registers.RNIC_ID_VALUE and read["MTU"] == 1234, read
with open(os.path.join(data, "registers.json"), encoding="utf-8") as file:
    described = {row[0]: int(row[1], 0) for row in json.load(file)["spaces"][0]["registers"]}
assert {"RNIC_REG_" + name: offset for name, offset in described.items()} == \
    {name: value for name, value in vars(registers).items() if name.startswith("RNIC_REG_")}
subprocess.run([compiler, "-std=c99", "-pedantic", "-Werror", "-fsyntax-only", "-x", "c",
                os.path.join(data, "registers.h")], check=True)
for name in ("card.md", "hardware.md", "efe.md", "guest.md", "log.md"):
    assert os.path.getsize(os.path.join(documents, "rnic", name)) > 0
assert os.path.getsize(os.path.join(data, "efe.lua")) > 0
