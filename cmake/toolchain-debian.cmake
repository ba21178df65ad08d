# SPDX-License-Identifier: MIT
# What Debian's cross compilers have in common; included by toolchain-<target>.cmake, which names the
# triplet, the processor and the emulator. What Debian has not for the target, ./dev cross builds and puts
# into build/root-<triplet>.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${vipl_cross_processor})
set(CMAKE_C_COMPILER ${vipl_cross_triplet}-gcc)
set(CMAKE_CXX_COMPILER ${vipl_cross_triplet}-g++)
get_filename_component(vipl_cross_root ${CMAKE_CURRENT_LIST_DIR}/../build/root-${vipl_cross_triplet} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH /usr/${vipl_cross_triplet} ${vipl_cross_root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${vipl_cross_qemu};-L;/usr/${vipl_cross_triplet})
