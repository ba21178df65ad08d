#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A stranger's first minutes: the programs of docs/tutorial.md as they are in the text, compiled by plain cc, by CMake, and in C++; run; and
made to fail, for what the library then says.

    tutorial.py CHECKOUT INSTALLED-TREE WORK CC CXX

Prints a transcript.
"""
import os
import re
import shutil
import subprocess
import sys

source, prefix, work, cc, cxx = sys.argv[1:6]
LIMIT_S = 60 * int(os.environ.get("VIPL_TEST_TIMEOUT_SCALE", "1"))
failed = []


def find(name):
    for folder, _, files in os.walk(prefix):
        if name in files:
            return folder
    sys.exit("FAILED: %s is not installed" % name)


environment = dict(os.environ, PKG_CONFIG_PATH=find("vipl.pc"), LD_LIBRARY_PATH=os.path.dirname(find("vipl.pc")), VIPL_CONFIG="/dev/null")


def sh(command, code=0, expect=(), **more):
    """Runs a command as it would be typed, and says what it printed."""
    done = subprocess.run(["sh", "-c", command], cwd=work, env=dict(environment, **more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=LIMIT_S, check=False)
    words = "".join("%s=%s " % each for each in more.items())
    print("$ %s%s\n%s" % (words, command, done.stdout), end="")
    if done.returncode != code:
        failed.append("%s: exit code %d, not %d" % (command, done.returncode, code))
    for text in expect:
        if text not in done.stdout:
            failed.append("%s: it does not say: %s" % (command, text))


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
with open(os.path.join(source, "docs", "tutorial.md"), encoding="utf-8") as file:
    programs = dict(re.findall(r"^```c (\w+\.c)\n(.*?)^```$", file.read(), re.M | re.S))
if sorted(programs) != ["first.c", "second.c"]:
    failed.append("the tutorial has %s" % sorted(programs))
for name, text in programs.items():
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write(text)

# By plain cc.
flags = "-Wall -Wextra -Werror $(pkg-config --cflags --libs vipl)"
sh("%s first.c %s -o first" % (cc, flags))
sh("%s second.c %s -o second" % (cc, flags))
sh("./first & ./first hello; wait", expect=["received: hello"])
sh("./first & ./first hello; wait", expect=["received: hello"], VIPL_DEVICE="tcp:127.0.0.1", VIPL_TCP_PORTS=os.environ.get("VIPL_TCP_PORTS", "18514-18769"))
sh("./second & ./first one && ./first two; wait", expect=["received: one", "received: two"])

# By CMake, and in C++.
shutil.copy(os.path.join(source, "examples", "hello_cpp.cpp"), work)
with open(os.path.join(work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
    file.write("cmake_minimum_required(VERSION 3.20)\nproject(first LANGUAGES C CXX)\nfind_package(vipl CONFIG REQUIRED)\n"
               "add_executable(first first.c)\ntarget_link_libraries(first PRIVATE vipl::vipl)\n"
               "add_executable(hello hello_cpp.cpp)\ntarget_compile_features(hello PRIVATE cxx_std_17)\n"
               "target_link_libraries(hello PRIVATE vipl::vipl)\n")
sh("cmake -S . -B built -DCMAKE_PREFIX_PATH=%s -DCMAKE_C_COMPILER=%s -DCMAKE_CXX_COMPILER=%s >log 2>&1 || cat log" % (prefix, cc, cxx))
sh("cmake --build built >log 2>&1 || cat log")
sh("built/first & built/first hello; wait", expect=["received: hello"])
sh("built/hello", expect=["hello from process"])
sh("%s -std=c++17 hello_cpp.cpp %s -o hello && ./hello" % (cxx, flags), expect=["hello from process"])

# What goes wrong, and what is said then.
no_match = "VipConnectRequest: VIP_NO_MATCH: the host was reached, and no program there waits for this name"
sh("./first hello", 1, [no_match])
sh("./first hello", 1, [no_match, 'reason: no program at 127.0.0.1 waits for "tutorial"'], VIPL_LOG="reason")
sh("./first", 1, ["VipOpenNic: VIP_ERROR_RESOURCE", 'this build has no device "tpc"'], VIPL_DEVICE="tpc", VIPL_LOG="reason")
sh("./first", 1, ['tcp: "eth99" is no interface or address of this host'], VIPL_DEVICE="tcp:eth99", VIPL_LOG="reason")
sh("./first & ./first hello; wait", 0, ["VIPL_LOGG is no setting: is VIPL_LOG meant?", "received: hello"], VIPL_LOGG="info")
with open(os.path.join(work, "first.c"), encoding="utf-8") as file:
    text = file.read()
for name, old, new in (("small.c", "Length = SIZE;", "Length = argc > 1 ? SIZE : 4;"), ("unlike.c", "RELIABLE_DELIVERY, SIZE,",
                                                                                  "RELIABLE_DELIVERY, argc > 1 ? SIZE : 2 * SIZE,"),
                       ("early.c", "must(\"VipPostRecv\", VipPostRecv(vi, &message.work, memory)); /* before the peer can send */", "")):
    if old not in text:
        failed.append("first.c has no longer: " + old)
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    sh("%s %s $(pkg-config --cflags --libs vipl) -o %s" % (cc, name, name[:-2]))
sh("./small & ./small 'more than four bytes'; wait", 0, ["VipRecvWait: VIP_DESCRIPTOR_ERROR: the descriptor is complete with an error"])
sh("./unlike & ./unlike hello; wait", 0, ["VipConnectAccept: VIP_INVALID_MTU", "this VI has a MaxTransferSize of 128, the requester's VI one of 64"],
   VIPL_LOG="reason")
sh("./early & ./early hello; wait", 0, ["VipRecvWait: "])
print("\n".join(failed) + "\n%d failed" % len(failed))
sys.exit(1 if failed else 0)
