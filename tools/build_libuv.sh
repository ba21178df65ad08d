#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds libuv, shared and static, where the distribution has no libuv package for the machine or the C library:
#
#     tools/build_libuv.sh PREFIX [-DOPTION=VALUE...]
#
# The source is the distribution's own, fetched by apt as its user would, but with lists of our own: neither
# deb-src lines nor root are needed, and the system stays as it is. Elsewhere, or without a network,
# LIBUV_SOURCE names a folder that holds libuv's sources.
set -euo pipefail

prefix=$1
shift
if { [ -e "$prefix/lib/libuv.so" ] || [ -e "$prefix/lib/libuv.dylib" ] || [ -e "$prefix/lib/libuv.dll.a" ]; } && [ -e "$prefix/include/uv.h" ]; then
    exit 0
fi
mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT

# fetch: libuv's sources, into $work/source. Each of the system's repositories is asked in turn: one without
# sources, or with a list older than its files, does not matter while another has them.
fetch() {
    local line apt
    apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/repository.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)")
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/download"
    while read -r line; do
        echo "$line" >"$work/repository.list"
        if "${apt[@]}" update && (cd "$work/download" && "${apt[@]}" source libuv1); then
            mv "$work"/download/libuv1-*/ "$work/source"
            return 0
        fi
    done < <(apt-get indextargets --no-release-info --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' | awk '!seen[$0]++')
    echo "no repository of this system has libuv's source: set LIBUV_SOURCE to a folder that holds it" >&2
    return 1
}

if [ -n "${LIBUV_SOURCE:-}" ]; then
    cp -r "$LIBUV_SOURCE" "$work/source"
else
    fetch
fi
cmake -S "$work/source" -B "$work/build" -GNinja "$@" -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_TESTING=OFF -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX="$prefix"
cmake --build "$work/build" -- -j "$(nproc)"
cmake --install "$work/build"
