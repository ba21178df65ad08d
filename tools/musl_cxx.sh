#!/bin/sh
# SPDX-License-Identifier: MIT
# A C++ compiler for musl, zig's, which ./dev musl has put into build/zig: what Debian's musl-tools lack.
#
#     tools/musl_cxx.sh ARGUMENT...    as for c++
set -eu
root=${0%/*}/..
for zig in "$root"/build/zig/lib/python3*/site-packages/ziglang/zig; do :; done
ZIG_GLOBAL_CACHE_DIR=$(readlink -f "$root/build/zig")/cache
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR="$root/build/zig-cache"

# Its linker knows --wrap, but what calls the linker does not: then it says how it would call it, and is not asked.
wrap=
for argument in "$@"; do
    shift
    case $argument in
        -Wl,--wrap=*) wrap="$wrap $(echo "${argument#-Wl,}" | tr , ' ')" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
set -- c++ -target "$(uname -m)-linux-musl" -dynamic -fno-sanitize=undefined "$@"
[ -n "$wrap" ] || exec "$zig" "$@"
# shellcheck disable=SC2046,SC2086 # words
exec "$zig" $("$zig" "$@" '-###' 2>&1 | grep '^ld\.lld ') $wrap
