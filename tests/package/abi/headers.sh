#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: headers.sh INCLUDE_FOLDER COMPILER...
# Each public header compiles alone, without a warning, in every standard that each compiler knows.
set -u
include=$1
shift
. "${0%/*}/compilers.sh"
warnings='-Wall -Wextra -pedantic -Werror -Wcast-align -Wundef -Wstrict-prototypes'

# try COMPILER LANGUAGE STANDARD HEADER [FLAG...]
try() {
    compiler=$1 language=$2 standard=$3 header=$4
    shift 4
    case $language in
        c) source=$scratch/alone.c flags=$warnings ;;
        *) source=$scratch/alone.cpp flags=${warnings% -Wstrict-prototypes} ;;
    esac
    printf '#include <%s>\n#include <%s>\nextern int alone;\nint alone;\n' "$header" "$header" >"$source"
    done=$((done + 1))
    # shellcheck disable=SC2086 # the warnings are several words
    if ! "$compiler" -x "$language" -std="$standard" $flags -I"$include" "$@" -fsyntax-only "$source" 2>"$scratch/log"
    then
        failed=$((failed + 1))
        echo "FAIL $compiler -std=$standard <$header> $*"
        cat "$scratch/log"
    fi
}

# macros COMPILER HEADER [FLAG...]: which of IN, OUT and a function with a signal mask are there
macros() {
    compiler=$1 header=$2
    shift 2
    printf '#include <%s>\nIN is mine\nOUT is mine\n' "$header" |
        "$compiler" -x c -std=c99 -I"$include" "$@" -E -P - | grep -o -e '.*is mine' -e 'VipxCQWaitMask' | tr -s '\n ' ' '
}

# is WANTED FOUND WHAT
is() {
    done=$((done + 1))
    [ "$1" = "$2" ] && return
    failed=$((failed + 1))
    echo "FAIL $3: \"$2\" instead of \"$1\""
}

for compiler in "$@"; do
    command -v "$compiler" >/dev/null || continue
    seen=''
    for pair in $standards; do
        language=${pair%%/*} standard=${pair#*/}
        knows "$compiler" "$language" "$standard" || continue
        seen="$seen $standard"
        try "$compiler" "$language" "$standard" vipl/vipl.h
        try "$compiler" "$language" "$standard" vipl/vipl.h -DVIPL_NO_PROTOTYPES
        try "$compiler" "$language" "$standard" vipl/version.h
        try "$compiler" "$language" "$standard" vipl.h -I"$include/vipl/compat"
        try "$compiler" "$language" "$standard" vipl/posix.h
        try "$compiler" "$language" "$standard" vipl/posix.h -D_POSIX_C_SOURCE=200809L
        try "$compiler" "$language" "$standard" vipl/cache.h
        try "$compiler" "$language" "$standard" vipl/device_memory.h
        case $standard in
            c++17 | c++2*) try "$compiler" "$language" "$standard" vipl/vipl.hpp ;;
        esac
    done
    # IN and OUT belong to programs, but for old ones, which may have their own.
    compat="-I$include/vipl/compat"
    is 'IN is mine OUT is mine ' "$(macros "$compiler" vipl/vipl.h)" "$compiler: vipl/vipl.h"
    is 'IN is mine OUT is mine ' "$(macros "$compiler" vipl/posix.h)" "$compiler: vipl/posix.h"
    is ' is mine is mine ' "$(macros "$compiler" vipl.h "$compat")" "$compiler: vipl.h"
    is '1 is mine 2 is mine ' "$(macros "$compiler" vipl.h "$compat" -DIN=1 -DOUT=2)" "$compiler: vipl.h with IN and OUT"
    is 'VipxCQWaitMask IN is mine OUT is mine ' "$(macros "$compiler" vipl/posix.h -D_POSIX_C_SOURCE=200809L)" \
        "$compiler: vipl/posix.h with signal masks"
    echo "$compiler:$seen"
done
echo "$done compilations, $failed failed"
[ "$done" -gt 0 ] && [ "$failed" -eq 0 ]
