# SPDX-License-Identifier: MIT
# Other systems, by the compiler of zig, which has their C libraries: cmake --toolchain cmake/zig.cmake -DVIPL_ZIG_TARGET=x86_64-freebsd.
# ./dev zig puts zig into build/zig, and libuv for the target into build/root-<target>.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VIPL_ZIG_TARGET)
get_filename_component(vipl_zig_source ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
file(GLOB vipl_zig ${vipl_zig_source}/build/zig/lib/python3*/site-packages/ziglang/zig)
set(vipl_zig_systems freebsd=FreeBSD netbsd=NetBSD openbsd=OpenBSD macos=Darwin)
foreach(pair IN LISTS vipl_zig_systems)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 name)
    if(VIPL_ZIG_TARGET MATCHES "^([^-]+)-${name}$")
        set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
        list(GET pair 1 CMAKE_SYSTEM_NAME)
    endif()
endforeach()
if(NOT CMAKE_SYSTEM_NAME OR NOT vipl_zig)
    message(FATAL_ERROR "VIPL_ZIG_TARGET=${VIPL_ZIG_TARGET}: a CPU, and one of ${vipl_zig_systems}; and zig is in build/zig")
endif()
set(CMAKE_C_COMPILER ${vipl_zig} cc -target ${VIPL_ZIG_TARGET})
set(CMAKE_CXX_COMPILER ${vipl_zig} c++ -target ${VIPL_ZIG_TARGET})
if(DEFINED VIPL_ZIG_CXX AND NOT VIPL_ZIG_CXX) # zig would build the C++ library, which takes a minute
    set(CMAKE_CXX_COMPILER CXX-NOTFOUND)
endif()
set(CMAKE_C_COMPILER_LAUNCHER "") # zig has a cache of its own
set(CMAKE_CXX_COMPILER_LAUNCHER "")
# zig's default is what undefined behaviour ends in: a trap.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
foreach(language IN ITEMS C CXX)
    set(CMAKE_${language}_ARCHIVE_CREATE "${vipl_zig} ar qc <TARGET> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_APPEND "${vipl_zig} ar q <TARGET> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_FINISH "${vipl_zig} ranlib <TARGET>")
endforeach()
set(CMAKE_AR ${vipl_zig} CACHE FILEPATH "") # CMake asks for one
set(CMAKE_RANLIB ${vipl_zig} CACHE FILEPATH "")
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin") # CMake asks for one, too: it would change the paths of libraries that are installed
    set(CMAKE_INSTALL_NAME_TOOL true CACHE FILEPATH "")
endif()
set(CMAKE_FIND_ROOT_PATH ${vipl_zig_source}/build/root-${VIPL_ZIG_TARGET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
