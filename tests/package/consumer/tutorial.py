#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The programs of docs/use/tutorial.md as they are in the text, compiled and run by the commands of the text, by CMake, and in C++; and made to
fail, for what the library then says.

    tutorial.py CHECKOUT INSTALLED-TREE WORK CC CXX

Prints a transcript.
"""
import os
import re
import shutil
import subprocess
import sys

from transcript import Transcript

source, prefix, work, cc, cxx = sys.argv[1:6]


def find(name):
    for folder, _, files in os.walk(prefix):
        if name in files:
            return folder
    sys.exit("FAILED: %s is not installed" % name)


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
reader = Transcript(work, dict(os.environ, PKG_CONFIG_PATH=find("vipl.pc"), LD_LIBRARY_PATH=os.path.dirname(find("vipl.pc")),
                               VIPL_CONFIG="/dev/null"))
with open(os.path.join(source, "docs", "use", "tutorial.md"), encoding="utf-8") as file:
    tutorial = file.read()
programs = dict(re.findall(r"^```c (\w+\.c)\n(.*?)^```$", tutorial, re.M | re.S))
commands = re.findall(r"^    ((?:cc|\./first|VIPL_DEVICE=tcp) .*?) *(?:#.*)?$", re.sub(r"^```.*?^```$", "", tutorial, flags=re.M | re.S), re.M)
reader.that(sorted(programs) == ["first.c", "second.c"], "the tutorial has %s" % sorted(programs))
reader.that(len(commands) == 3, "the tutorial's commands are %s" % commands)
for name, text in programs.items():
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write(text)

# By plain cc.
for command in commands:
    compiles = command.startswith("cc ")
    reader.sh(re.sub("^cc ", cc + " ", command) if compiles else command + "; wait", expect=[] if compiles else ["received: hello"])
flags = "-Wall -Wextra -Werror $(pkg-config --cflags --libs vipl)"
reader.sh("%s first.c %s -o first" % (cc, flags))
reader.sh("%s second.c %s -o second" % (cc, flags))
reader.sh("./second & ./first one && ./first two; wait", expect=["received: one", "received: two"])

# By CMake, and in C++.
shutil.copy(os.path.join(source, "examples", "hello_cpp.cpp"), work)
with open(os.path.join(work, "CMakeLists.txt"), "w", encoding="utf-8") as file:
    file.write("cmake_minimum_required(VERSION 3.20)\nproject(first LANGUAGES C CXX)\nfind_package(vipl CONFIG REQUIRED)\n"
               "add_executable(first first.c)\ntarget_link_libraries(first PRIVATE vipl::vipl)\n"
               "add_executable(hello hello_cpp.cpp)\ntarget_compile_features(hello PRIVATE cxx_std_17)\n"
               "target_link_libraries(hello PRIVATE vipl::vipl)\n")
reader.sh("cmake -S . -B built -DCMAKE_PREFIX_PATH=%s -DCMAKE_C_COMPILER=%s -DCMAKE_CXX_COMPILER=%s >log 2>&1 || cat log" % (prefix, cc, cxx))
reader.sh("cmake --build built >log 2>&1 || cat log")
reader.sh("built/first & built/first hello; wait", expect=["received: hello"])
reader.sh("built/hello", expect=["hello from process"])
reader.sh("%s -std=c++17 hello_cpp.cpp %s -o hello && ./hello" % (cxx, flags), expect=["hello from process"])

# What goes wrong, and what is said then.
no_match = "VipConnectRequest: VIP_NO_MATCH: the host was reached, and no program there waits for this name"
reader.sh("./first hello", 1, [no_match])
reader.sh("./first hello", 1, [no_match, 'reason: no program at 127.0.0.1 waits for "tutorial"'], VIPL_LOG="reason")
reader.sh("./first", 1, ["VipOpenNic: VIP_ERROR_RESOURCE", 'this build has no device "tpc"'], VIPL_DEVICE="tpc", VIPL_LOG="reason")
reader.sh("./first", 1, ['tcp: "eth99" is no interface or address of this host'], VIPL_DEVICE="tcp:eth99", VIPL_LOG="reason")
reader.sh("./first & ./first hello; wait", 0, ["VIPL_LOGG is no setting: is VIPL_LOG meant?", "received: hello"], VIPL_LOGG="info")
with open(os.path.join(work, "first.c"), encoding="utf-8") as file:
    text = file.read()
for name, old, new in (("small.c", "Length = SIZE;", "Length = argc > 1 ? SIZE : 4;"), ("unlike.c", "RELIABLE_DELIVERY, SIZE,",
                                                                                  "RELIABLE_DELIVERY, argc > 1 ? SIZE : 2 * SIZE,"),
                       ("early.c", "must(\"VipPostRecv\", VipPostRecv(vi, &message.work, memory)); /* before the peer can send */", "")):
    reader.that(old in text, "first.c has no longer: " + old)
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    reader.sh("%s %s $(pkg-config --cflags --libs vipl) -o %s" % (cc, name, name[:-2]))
reader.sh("./small & ./small 'more than four bytes'; wait", 0, ["VipRecvWait: VIP_DESCRIPTOR_ERROR: the descriptor is complete with an error"])
reader.sh("./unlike & ./unlike hello; wait", 0, ["VipConnectAccept: VIP_INVALID_MTU", "this VI has a MaxTransferSize of 128, the requester's VI one of 64"],
          VIPL_LOG="reason")
reader.sh("./early & ./early hello; wait", 0, ["VipRecvWait: "])
reader.finish()
