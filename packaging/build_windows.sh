#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the zip for Windows, by mingw-w64: the DLL, import libraries for mingw and for MSVC's linker, tools, headers, CMake's package, documents
# and the licence. Then programs use what is in it: by CMake, by command lines of mingw, and by clang as if it were cl. They run under Wine.
# ./dev package windows gives it the options of cmake that build for Windows.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$PWD/build/package/windows
version=$(sed -n 's/^#define VIPL_VERSION_STRING "\(.*\)"/\1/p' include/vipl/version.h)
name=vipl-$version-windows-x86_64
rm -rf "$work/unpacked" "$work/$name" "$work/$name.zip" "$work/program"
mkdir -p "$work"

cmake -G Ninja -S . -B "$work/build" "$@" -DCMAKE_BUILD_TYPE=Release -DVIPL_BUILD_STATIC=OFF -DVIPL_BUILD_TESTS=OFF >"$work/build.log" 2>&1 ||
    { cat "$work/build.log" >&2; exit 1; }
cmake --build "$work/build" -- --quiet
cmake --install "$work/build" --prefix "$work/$name" --strip >>"$work/build.log"

# MSVC's linker reads import libraries in a form of its own, which llvm-dlltool writes.
{
    echo "LIBRARY vipl.dll"
    echo EXPORTS
    x86_64-w64-mingw32-objdump -p "$work/$name/bin/vipl.dll" | sed -n 's/^\t\[ *[0-9]*\] \([A-Za-z_][A-Za-z0-9_]*\)$/    \1/p'
} >"$work/$name/lib/vipl.def"
grep -q '^    VipOpenNic$' "$work/$name/lib/vipl.def"
grep -q '^    VipxGetEvent$' "$work/$name/lib/vipl.def"
if grep -vE '^(LIBRARY|EXPORTS|    Vipx?[A-Z])' "$work/$name/lib/vipl.def"; then
    echo "windows: the DLL exports something else" >&2
    exit 1
fi
llvm-dlltool -m i386:x86-64 -d "$work/$name/lib/vipl.def" -D vipl.dll -l "$work/$name/lib/vipl.lib"
(cd "$work" && cmake -E tar cf "$name.zip" --format=zip "$name")

mkdir "$work/unpacked"
(cd "$work/unpacked" && cmake -E tar xf "../$name.zip")
top=$work/unpacked/$name
for file in bin/vipl.dll bin/vipl-info.exe bin/vipl-perf.exe bin/vipl-ping.exe lib/libvipl.dll.a lib/vipl.lib include/vipl/vipl.h include/vipl/windows.h; do
    [ -s "$top/$file" ] || { echo "windows: the zip has no $file" >&2; exit 1; }
done
find "$top" -name LICENSE | grep -q . || { echo "windows: the zip has no licence" >&2; exit 1; }

program=$work/program
mkdir "$program"
cmake -G Ninja -S tests/package/consumer/windows -B "$program/cmake" --toolchain "$PWD/cmake/mingw.cmake" \
    -Dvipl_DIR="$top/lib/cmake/vipl" -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH >"$program/log" 2>&1 || { cat "$program/log" >&2; exit 1; }
cmake --build "$program/cmake" -- --quiet
cp "$program"/cmake/*.exe "$program"
source=tests/package/consumer/main.c
x86_64-w64-mingw32-gcc "$source" -I"$top/include" -L"$top/lib" -lvipl -o "$program/by-mingw.exe"
clang --driver-mode=cl --target=x86_64-w64-windows-gnu /nologo /W4 /WX /GS- /Zl /DVIPL_SHARED /I"$top/include" \
    /c /Fo"$program/main.obj" "$source"
x86_64-w64-mingw32-gcc "$program/main.obj" "$top/lib/vipl.lib" -o "$program/by-clang.exe"
cp "$top/bin/vipl.dll" "$program"
for one in by-cmake by-mingw by-clang; do
    wine64 "$program/$one.exe" | tr -d '\r' | tee "$program/$one.out"
    grep -q "^vipl $version, device loopback$" "$program/$one.out" || { echo "windows: $one does not say what it is" >&2; exit 1; }
done
wine64 "$program/old.exe"
wine64 "$top/bin/vipl-info.exe" | tr -d '\r' >"$program/vipl-info.out"
grep -q "^library $version$" "$program/vipl-info.out" || { echo "windows: its vipl-info does not run" >&2; exit 1; }
echo "windows: built, unpacked and used: $work/$name.zip"
