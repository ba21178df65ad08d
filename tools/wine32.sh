#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Debian's Wine for programs of 32 bits, in a system of its own in build/wine32-root: neither this system's packages nor its architectures change.
#
#     tools/wine32.sh --make            makes it. Needs root, mmdebstrap, and this system's Wine (wine64).
#     tools/wine32.sh --end             ends what runs there
#     tools/wine32.sh PROGRAM [ARGS]    runs a program; this repository, /dev and /proc are there, too
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
root=$top/build/wine32-root

make() {
    local mirror proxy
    cd "$top"
    . tools/debian_mirror.sh
    rm -rf "$root"
    mkdir -p build
    mmdebstrap --quiet --architectures=i386 --variant=extract ${proxy[@]+"${proxy[@]}"} --include=wine32 bookworm "$root" "$mirror"
    # Wine's packages are unpacked only. The one thing that their scripts do is to write this file, which is the same for all CPUs.
    cp /usr/lib/*/wine/i386-windows/zlib1.dll "$root/usr/lib/i386-linux-gnu/wine/i386-windows/"
    mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root$top"
    touch "$root/made"
}

# enter PROGRAM [ARGS]: in the other system. Its mounts end with the last process there.
enter() {
    export HOME=/ WINEARCH=win32 WINESERVER=/usr/lib/wine/wineserver32 WINELOADER=/usr/lib/wine/wine
    # shellcheck disable=SC2016 # the other shell's
    exec unshare --mount bash -ec 'root=$1 top=$2
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --bind "$top" "$root$top"
        exec unshare --root="$root" --wd="$3" "${@:4}"' bash "$root" "$top" "$PWD" "$@"
}

case $1 in
    --make) [ -e "$root/made" ] || make ;;
    --end) enter /usr/lib/wine/wineserver32 -k ;;
    *) enter /usr/lib/wine/wine "$@" ;;
esac
