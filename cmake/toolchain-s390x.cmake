# SPDX-License-Identifier: MIT
# s390x: 64-bit, big-endian.
set(vipl_cross_triplet s390x-linux-gnu)
set(vipl_cross_processor s390x)
set(vipl_cross_qemu qemu-s390x-static)
include(${CMAKE_CURRENT_LIST_DIR}/toolchain-debian.cmake)
