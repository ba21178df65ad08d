# SPDX-License-Identifier: MIT
# What the checks with every compiler share: a scratch folder, the count of what was done and of what failed, and the
# standards. Read by them with "."; not run.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
done=0
standards='c/c90 c/gnu89 c/c99 c/c11 c/c17 c/c2x c++/c++98 c++/c++11 c++/c++14 c++/c++17 c++/c++20 c++/c++2b'

# knows COMPILER LANGUAGE STANDARD: and has its library
knows() {
    printf '#include <%s>\n' "$([ "$2" = c ] && echo stddef.h || echo cstddef)" | "$1" -x "$2" -std="$3" -fsyntax-only - 2>/dev/null
}
