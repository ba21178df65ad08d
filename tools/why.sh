#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/why.sh LOG: what the log of a build or of a test run says of a failure: what tools/run_tests.py said of tests at its end, or else the
# errors of a build, or else the last lines.
set -uo pipefail
awk '
    /^(FAILED|SKIPPED|FLAKY) [a-z_]+\.[^ ]+ ?[(:]/ { told = 1; print substr($0, 1, 300); tests++; next }
    told && /^    / { print substr($0, 1, 200); next }
    { told = 0 }
    more > 0 { build[++lines] = substr($0, 1, 200); more--; next }
    /FAILED|WRONG|ERROR: |SUMMARY: |(error|warning):|^dev: |not so$/ { build[++lines] = substr($0, 1, 200); more = 4 }
    /[^ ]/ { last[++all % 20] = substr($0, 1, 200) }
    END {
        for (i = 1; !tests && i <= lines && i <= 60; i++) { print build[i] }
        for (i = all - 19; tests + lines == 0 && i <= all; i++) { if (i > 0) { print last[i % 20] } }
    }' "$1"
exit 0
