# SPDX-License-Identifier: MIT
# Another C library, with the compiler of Debian's musl-tools, which come without Linux's headers and libuv, which ./dev musl puts into
# build/root-musl, and without C++, which is zig's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
get_filename_component(vipl_musl_source ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
set(vipl_musl_root ${vipl_musl_source}/build/root-musl)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER ${vipl_musl_source}/tools/musl_cxx.sh)
# -fPIC: a program that zig links would have copies of musl's variables, of sizes that are wrong: optarg has four bytes.
set(CMAKE_C_FLAGS_INIT "-fPIC -idirafter ${vipl_musl_root}/linux")
set(CMAKE_CXX_FLAGS_INIT "-fPIC")
set(CMAKE_FIND_ROOT_PATH ${vipl_musl_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
