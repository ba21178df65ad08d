# SPDX-License-Identifier: MIT
# powerpc: 32-bit, big-endian, no lock-free 64-bit atomics.
set(vipl_cross_triplet powerpc-linux-gnu)
set(vipl_cross_processor powerpc)
set(vipl_cross_qemu qemu-ppc-static)
include(${CMAKE_CURRENT_LIST_DIR}/toolchain-debian.cmake)
