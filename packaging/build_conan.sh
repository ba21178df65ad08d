#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the Conan package, static and shared, and programs that use it by CMake and by pkg-config. The system's libuv serves for
# ConanCenter's, which need not be reachable; conan comes from PyPI unless it is there. All it makes is in build/package/conan.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/build/package/conan
mkdir -p "$work"
export CONAN_HOME=$work/home
if ! command -v conan >/dev/null; then
    [ -x "$work/venv/bin/conan" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'conan>=2,<3'; }
    PATH=$work/venv/bin:$PATH
fi
[ -e "$CONAN_HOME/profiles/default" ] || conan profile detect >/dev/null
printf 'include(default)\n[replace_requires]\nlibuv/*: libuv/system\n' >"$CONAN_HOME/profiles/system"
conan create packaging/conan/system-libuv -v error
for shared in False True; do
    conan create packaging/conan --profile:all system --options "vipl/*:shared=$shared" --no-remote -v error \
        -c tools.cmake.cmake_layout:test_folder="$work/test"
    echo "conan: built and used, shared=$shared"
done
