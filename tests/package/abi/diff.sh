#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: diff.sh INCLUDE_FOLDER RECORD LIBRARY [--record]
# Programs that are linked with the released library go on with this one: nothing of its interface is gone or changed. RECORD is what the
# last release had, written by its --record, for one CPU and compiler. More is allowed.
set -eu
include=$1 record=$2 library=$3
options='--exported-interfaces-only --drop-private-types --drop-undefined-syms --no-elf-needed --no-show-locs --no-comp-dir-path
    --no-corpus-path --type-id-style hash'
if [ "${4:-}" = --record ]; then
    # shellcheck disable=SC2086 # several words
    abidw $options --headers-dir "$include" --out-file "$record" "$library"
    exit 0
fi
if ! command -v abidiff >/dev/null; then
    echo 'cannot run: abidiff is not installed'
    [ "${CI:-}" = true ] && exit 1
    exit 77
fi
grep -q "name='VipOpenNic' version='VIPL_1.0'" "$record"
abidiff --no-added-syms --headers-dir1 "$include" --headers-dir2 "$include" "$record" "$library"
