#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/why.sh LOG: what the log of a build or of a test run says of a failure. Of each test that failed, its name, and what it says: lines that
# name a failure with what follows, without the library's own log, or else its last lines. Of a build, its errors.
set -uo pipefail
awk '
    function cause(line) { return line ~ /FAILED:|FAIL |WRONG|HUNG:|ERROR: |WARNING: |SUMMARY: |[a-z]: error:|warning:|not so$/ }
    function tell(    i, told, until) {
        for (i = 1; i <= n && told < 40; i++) {
            if (cause(text[i])) { until = i + 4 }
            if (i <= until) { print "    " text[i]; told++ }
        }
        for (i = n > 8 ? n - 8 : 1; told == 0 && i <= n; i++) { print "    " text[i] }
        n = 0
    }
    /^ +Start +[0-9]+: |^ *[0-9]+\/[0-9]+ +Test +#|^[0-9]+% tests passed/ {
        if (failed) { tell() }
        failed = /\*\*\*/
        if (failed) { print substr($0, 1, 200); tests++ }
        n = 0
        next
    }
    /^vipl\[|^(--|==)|^$/ { next }
    failed { text[++n] = substr($0, 1, 200); next }
    !begun && cause($0) { build[++lines] = substr($0, 1, 200); more = 4; next }
    more > 0 { build[++lines] = substr($0, 1, 200); more-- }
    { last[++all % 20] = substr($0, 1, 200) }
    END {
        if (failed) { tell() }
        for (i = 1; tests == 0 && i <= lines && i <= 60; i++) { print build[i] }
        for (i = all - 18; tests + lines == 0 && i <= all; i++) { if (i > 0) { print last[i % 20] } }
    }' "$1" | awk '!/^ / || !seen[$0]++'
grep -E 'did not run|[0-9]+ tests failed' "$1" | head -n 3
exit 0
