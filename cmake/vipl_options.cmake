# SPDX-License-Identifier: MIT
# Every option, all with the prefix VIPL_. As a sub-project nothing but the library is built.

include(CheckSymbolExists)
include(CMakeDependentOption)

set(vipl_top_level OFF)
if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
    set(vipl_top_level ON)
    if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
    endif()
endif()

option(VIPL_BUILD_SHARED "Build the shared library, vipl::shared" ON)
option(VIPL_BUILD_STATIC "Build the static library, vipl::static" ON)
# What systems have that offer little more than POSIX: built and tested on Linux.
option(VIPL_OS_PORTABLE "The parts of src/os that need no particular system, where there are parts for this system" OFF)
set(vipl_is_linux OFF) # and the library uses what it has
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT VIPL_OS_PORTABLE)
    set(vipl_is_linux ON)
endif()
# Shared objects and the card need what only Linux has: memory that is passed to other processes by descriptors, and words in it to wait for.
cmake_dependent_option(VIPL_SHARING "Objects that several processes share (VIPX_SHAREABLE, VipxAllocShared)" ON vipl_is_linux OFF)
option(VIPL_BACKEND_LOOPBACK "The emulator: VIs of one process and of the processes of one host" ON)
cmake_dependent_option(VIPL_BACKEND_RNIC "VIs on an RDMA card: the card's driver, and its emulation as the program vipl-rnicd" ON "vipl_is_linux OR WIN32" OFF)
cmake_dependent_option(VIPL_BACKEND_RNIC_MODEL "The emulated card inside the library: the device rnic:inproc, and an adapter without vipl-rnicd"
                       ON VIPL_BACKEND_RNIC OFF)
set(vipl_has_adapter OFF) # elsewhere there is the card in the process alone
if(VIPL_BACKEND_RNIC AND vipl_is_linux)
    set(vipl_has_adapter ON)
endif()

# libuv is all that the sockets need: they are built where it is.
find_path(VIPL_LIBUV_INCLUDE uv.h)
find_library(VIPL_LIBUV_LIBRARY NAMES uv uv_a NAMES_PER_DIR)
mark_as_advanced(VIPL_LIBUV_INCLUDE VIPL_LIBUV_LIBRARY)
set(vipl_has_libuv OFF)
if(VIPL_LIBUV_INCLUDE AND VIPL_LIBUV_LIBRARY)
    set(vipl_has_libuv ON)
endif()
option(VIPL_BACKEND_TCP "Kernel sockets that speak iWARP: VIs of different hosts (needs libuv)" ${vipl_has_libuv})
if(VIPL_BACKEND_TCP AND NOT vipl_has_libuv)
    message(FATAL_ERROR "VIPL_BACKEND_TCP needs libuv: install it, or set VIPL_LIBUV_INCLUDE and VIPL_LIBUV_LIBRARY")
elseif(NOT VIPL_BACKEND_TCP AND NOT vipl_has_libuv)
    message(STATUS "VIPL: no tcp device, because libuv was not found; once it is there, set VIPL_BACKEND_TCP=ON")
endif()

# The functions that it replaces are glibc's.
check_symbol_exists(__GLIBC__ features.h VIPL_C_LIBRARY_IS_GLIBC)
cmake_dependent_option(VIPL_SOCKETS "The library libvipl-sockets.so, which moves TCP connections of unmodified programs to VIPL" ON
                       "vipl_is_linux;VIPL_C_LIBRARY_IS_GLIBC;VIPL_BACKEND_LOOPBACK;vipl_top_level" OFF)

option(VIPL_BUILD_TESTS "Build the tests (C++17, Catch2 2.13)" ${vipl_top_level})
set(vipl_has_bench ${vipl_top_level})
if(WIN32)
    set(vipl_has_bench OFF) # the benchmarks fork
endif()
option(VIPL_BUILD_TOOLS "Build vipl-info, vipl-ping, vipl-perf, vipl-run and vipl-rnic-log" ${vipl_top_level})
option(VIPL_BUILD_EXAMPLES "Build the examples" ${vipl_top_level})
option(VIPL_BUILD_BENCH "Build the benchmarks" ${vipl_has_bench})
set(vipl_has_dm OFF)
if(vipl_top_level AND vipl_is_linux AND VIPL_BUILD_TOOLS)
    set(vipl_has_dm ON)
endif()
option(VIPL_BUILD_DM "Build libvipldm, and with the tools vipl-gen and vipl-cap, which send and receive recorded packets (Linux)" ${vipl_has_dm})
# The plug-in for DPDK is built where its libraries are.
set(vipl_has_dpdk OFF)
if(VIPL_BUILD_DM AND NOT CMAKE_CROSSCOMPILING AND NOT VIPL_SANITIZE)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(VIPL_DPDK QUIET libdpdk>=22.11)
    endif()
    if(VIPL_DPDK_FOUND)
        set(vipl_has_dpdk ON)
    endif()
endif()
option(VIPL_DM_DPDK "Build the plug-in of libvipldm for ports of DPDK (needs libdpdk 22.11)" ${vipl_has_dpdk})
# The ORB's transport is built where its headers for transports are.
find_path(VIPL_OMNIORB_INCLUDE omniORB4/internal/SocketCollection.h)
mark_as_advanced(VIPL_OMNIORB_INCLUDE)
set(vipl_has_omniorb OFF)
if(vipl_top_level AND vipl_is_linux AND VIPL_BUILD_STATIC AND VIPL_OMNIORB_INCLUDE AND NOT VIPL_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(vipl_has_omniorb ON)
endif()
option(VIPL_BUILD_OMNIORB "Build the transport of the ORB omniORB, giop:vipl (needs omniORB 4.2 or 4.3)" ${vipl_has_omniorb})
# The provider of libfabric is built where its headers for providers are.
find_path(VIPL_LIBFABRIC_INCLUDE rdma/providers/fi_prov.h)
find_library(VIPL_LIBFABRIC_LIBRARY fabric)
mark_as_advanced(VIPL_LIBFABRIC_INCLUDE VIPL_LIBFABRIC_LIBRARY)
set(vipl_has_libfabric OFF)
if(vipl_top_level AND vipl_is_linux AND VIPL_C_LIBRARY_IS_GLIBC AND VIPL_BUILD_SHARED AND VIPL_LIBFABRIC_INCLUDE AND VIPL_LIBFABRIC_LIBRARY
   AND NOT CMAKE_CROSSCOMPILING)
    set(vipl_has_libfabric ON)
endif()
option(VIPL_PROVIDER_LIBFABRIC "Build the provider vipl of libfabric, for Open MPI among others (needs libfabric 1.17)" ${vipl_has_libfabric})
if(VIPL_PROVIDER_LIBFABRIC AND NOT VIPL_BUILD_SHARED)
    message(FATAL_ERROR "VIPL_PROVIDER_LIBFABRIC needs the shared library: set VIPL_BUILD_SHARED=ON")
endif()
option(VIPL_BUILD_DOCS "Add the target doc (Doxygen)" OFF)
set(VIPL_DOC_STYLE "" CACHE PATH "Where doxygen-awesome-css is, for the pages of the target doc; empty: Doxygen's own look")
option(VIPL_INSTALL "Add the install rules" ${vipl_top_level})

option(VIPL_LTO "Link-time optimisation of the shared library in optimised builds, with compilers that have it (gcc)" ON)
option(VIPL_FUZZ "Build libFuzzer programs, which ./dev fuzz runs (clang)" OFF)
option(VIPL_WERROR "Warnings are errors" OFF)
option(VIPL_COVERAGE "Instrument for gcov" OFF)
set(VIPL_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")
set(VIPL_NATIVE_TOOLS "" CACHE PATH "Cross builds: the tools built for this machine, to talk to this build's in a test")
set(VIPL_TEST_WITHOUT "" CACHE STRING "Folders of tests/ that are neither built nor run, for example devices;adapter")
option(VIPL_TESTS_ON_DEMAND "Test programs are built where they are asked for, by name or all by the target vipl-tests" OFF)
set(VIPL_TEST_RNICD "" CACHE FILEPATH "The adapter on which tests of the device rnic run; empty: the one of this build")
set(VIPL_TEST_TIMEOUT_SCALE 1 CACHE STRING "Multiplies every test's time limit (emulators, sanitizers)")
set(VIPL_TEST_BUSY 4 CACHE STRING "Multiplies what tests wait for inside, by the clock: other programs may have most of the machine")

if(VIPL_BUILD_TESTS AND NOT VIPL_BUILD_STATIC)
    message(FATAL_ERROR "The white box tests need the static library: set VIPL_BUILD_STATIC=ON")
endif()
