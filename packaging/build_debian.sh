#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages in a system that has nothing but what they say they need, installs them in another one, and uses them there:
#
#     packaging/build_debian.sh [--check] [SUITE [FOLDER]]       bookworm, build/package/bookworm
#
# --check: with the tests that a package build runs, by that suite's Catch2. Needs root and mmdebstrap. The systems are folders that are removed again; the packages stay in FOLDER.
# Where the compilers of this system go through ccache, the building system has ccache, too, and this user's cache.
set -euo pipefail
cd "$(dirname "$0")/.."

# The systems get this environment. The cache is mounted in a namespace that ends with the build, so that removing the system leaves it alone.
enter='chroot "$1"' ccache=
if [ "${CMAKE_C_COMPILER_LAUNCHER:-}" = ccache ]; then
    ccache=,ccache
    export CCACHE_DIR=/ccache CCACHE_BASEDIR=/src/vipl
    cache=$(env -u CCACHE_DIR ccache --get-config cache_dir)
    mkdir -p "$cache"
    enter="mkdir \"\$1/ccache\" && unshare --mount sh -ec 'mount --bind \"$cache\" \"\$1/ccache\"; exec chroot \"\$@\"' sh \"\$1\""
fi

nocheck=nocheck
if [ "${1:-}" = --check ]; then
    nocheck=
    shift
fi
suite=${1:-bookworm}
out=${2:-$PWD/build/package/$suite}
. tools/debian_mirror.sh
mkdir -p "$out"
work=$(mktemp -d "${TMPDIR:-/tmp}/vipl-debian.XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir "$work/vipl-0"
git ls-files -co --exclude-standard -z | xargs -0 tar -cf - | tar -xf - -C "$work/vipl-0"
cp -r "$work/vipl-0/packaging/debian" "$work/vipl-0/debian"
depends=$(sed -n '/^Build-Depends:/,/^[A-Z]/{/^Build-Depends:/{s/^[^:]*://p};/^ /p}' packaging/debian/control |
    tr ',\n' '\n ' | sed 's/(.*)//; s/<!nocheck>//; s/=.*//; s/:any//; s/ //g; /^debhelper-compat/s/.*/debhelper/; /^$/d' | { [ -n "$nocheck" ] && grep -vx catch2 || cat; } |
    sort -u | paste -sd,)

echo "== build in $suite, with: $depends"
mmdebstrap --quiet --variant=apt ${proxy[@]+"${proxy[@]}"} --include="build-essential,fakeroot,$depends$ccache" \
    --customize-hook="mkdir -p \"\$1/src\" && cp -r $work/vipl-0 \"\$1/src/vipl\"" \
    --customize-hook="$enter"' sh -c "cd /src/vipl && DEB_BUILD_OPTIONS='"$nocheck"' DEB_BUILD_PROFILES='"$nocheck"' dpkg-buildpackage -us -uc -b >/src/log 2>&1 || { tail -n 60 /src/log; exit 1; }; ! grep -E \"tests passed|tests failed\" /src/log || true"' \
    --customize-hook="cp \"\$1\"/src/*.deb $out/" "$suite" /dev/null "$mirror"
ls "$out"

echo "== install in another $suite, and use"
mmdebstrap --quiet --variant=apt ${proxy[@]+"${proxy[@]}"} --include=gcc,libc6-dev,pkg-config,cmake,make \
    --customize-hook="mkdir \"\$1/deb\" && cp $out/*.deb \"\$1/deb/\" && cp -r tests/package/consumer \"\$1/consumer\"" \
    --customize-hook='chroot "$1" sh -c "apt-get install -y -qq /deb/libvipl0_*.deb /deb/libvipldm0_*.deb /deb/libvipl-dev_*.deb /deb/vipl-tools_*.deb >/dev/null"' \
    --customize-hook='chroot "$1" sh -ec "cd /tmp; cc /consumer/main.c \$(pkg-config --cflags --libs vipl) -o one && ./one; cc /consumer/main.c -static \$(pkg-config --static --cflags --libs vipl) -o two && ./two; cc /consumer/traffic.c \$(pkg-config --cflags --libs vipl-dm) -o three && ./three; cc /consumer/traffic.c -static \$(pkg-config --static --cflags --libs vipl-dm) -o four && ./four; vipl-info -d loopback -d tcp:lo | grep -c \"address  *127.0.0.1\"; vipl-ping --pair --quiet; vipl-ping --pair --quiet --device tcp:127.0.0.1; vipl-gen --version; vipl-cap --version; test -s /usr/share/man/man3/VipOpenNic.3.gz; test -s /usr/share/man/man3/vipl_dm_sender_open.3.gz; test -s /usr/share/man/man1/vipl-gen.1.gz; test -s /usr/share/man/man5/vipl.conf.5.gz"' \
    "$suite" /dev/null "$mirror"

echo "== the naming service of omniORB over VIPL, and libfabric with its provider, in another $suite"
mmdebstrap --quiet --variant=apt ${proxy[@]+"${proxy[@]}"} --include=omniorb,omniorb-nameserver,libfabric-bin \
    --customize-hook="mkdir \"\$1/deb\" && cp $out/*.deb \"\$1/deb/\"" \
    --customize-hook='chroot "$1" sh -c "apt-get install -y -qq /deb/libomniorb4-vipl_*.deb >/dev/null"' \
    --customize-hook="cp packaging/use_omniorb.sh \"\$1/deb/\" && chroot \"\$1\" sh -e /deb/use_omniorb.sh" \
    --customize-hook='chroot "$1" sh -ec "apt-get install -y -qq /deb/libvipl0_*.deb /deb/libfabric-vipl_*.deb >/dev/null; fi_info -p vipl | grep ofi_rxm"' \
    "$suite" /dev/null "$mirror"
echo "debian: built, installed and used in $suite"
