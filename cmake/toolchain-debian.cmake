# SPDX-License-Identifier: MIT
# What Debian's cross compilers have in common; included by toolchain-<target>.cmake, which names the
# triplet, the processor and the emulator.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${vipl_cross_processor})
set(CMAKE_C_COMPILER ${vipl_cross_triplet}-gcc)
set(CMAKE_CXX_COMPILER ${vipl_cross_triplet}-g++)
set(CMAKE_FIND_ROOT_PATH /usr/${vipl_cross_triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${vipl_cross_qemu};-L;/usr/${vipl_cross_triplet})
