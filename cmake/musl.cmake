# SPDX-License-Identifier: MIT
# Another C library, with the compiler of Debian's musl-tools, which comes without C++, Linux's headers and libuv: ./dev musl puts the
# latter two into build/root-musl.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER "")
get_filename_component(vipl_musl_root ${CMAKE_CURRENT_LIST_DIR}/../build/root-musl ABSOLUTE)
set(CMAKE_C_FLAGS_INIT "-idirafter ${vipl_musl_root}/linux")
set(CMAKE_FIND_ROOT_PATH ${vipl_musl_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
