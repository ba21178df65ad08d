#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: old.sh INCLUDE_FOLDER PROGRAM_FOLDER LIBRARY COMPILER...
# Old programs compile without a warning, optimised, in every standard that each compiler knows. With LIBRARY, which may be
# "-" for none, they run under the undefined behaviour sanitizer, and the one that polls at every optimisation.
set -u
include=$1 programs=$2 library=$3
shift 3
. "${0%/*}/compilers.sh"
warnings='-Wall -Wextra -pedantic -Werror -Wcast-align -Wstrict-aliasing=2'

# must COMMAND...: counts it, and says what it says if it fails.
must() {
    done=$((done + 1))
    "$@" >"$scratch/log" 2>&1 && return
    failed=$((failed + 1))
    echo "FAIL $*"
    cat "$scratch/log"
}

for compiler in "$@"; do
    command -v "$compiler" >/dev/null || continue
    for pair in $standards; do
        language=${pair%%/*} standard=${pair#*/}
        knows "$compiler" "$language" "$standard" || continue
        case $standard in # what is seen in generated code is the same in all
            c90 | c++2b) whole="-c -o $scratch/object.o" ;;
            *) whole=-fsyntax-only ;;
        esac
        for name in intel giganet; do
            # shellcheck disable=SC2086 # the warnings are several words
            must "$compiler" -x "$language" -std="$standard" -O2 $warnings -I"$include/vipl/compat" $whole \
                "$programs/$name.c"
        done
    done
    [ "$library" != - ] || continue
    for level in -O2 -O3; do
        must "$compiler" $level -pthread -I"$include/vipl/compat" "$programs/poll.c" -o "$scratch/poll" "$library" \
            -Wl,-rpath,"${library%/*}"
        must "$scratch/poll"
    done
    echo 'int main(void) { return 0; }' >"$scratch/plain.c"
    sanitize='-fsanitize=undefined -fno-sanitize-recover=all'
    # shellcheck disable=SC2086
    "$compiler" $sanitize "$scratch/plain.c" -o "$scratch/plain" 2>/dev/null || continue
    for name in old intel giganet; do
        # shellcheck disable=SC2086
        must "$compiler" -O1 -g $sanitize -I"$include/vipl/compat" "$programs/$name.c" -o "$scratch/$name" \
            "$library" -Wl,-rpath,"${library%/*}"
        must "$scratch/$name"
    done
done
echo "$done compilations and runs, $failed failed"
[ "$done" -gt 0 ] && [ "$failed" -eq 0 ]
