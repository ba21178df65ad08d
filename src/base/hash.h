/* SPDX-License-Identifier: MIT */
/* FNV-1a: a hash of bytes, which may come in several parts. */
#ifndef VIPL_BASE_HASH_H
#define VIPL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define VIPL_HASH_OF_NOTHING UINT64_C(0xCBF29CE484222325)

static inline uint64_t vipl_hash(uint64_t before, const void *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    for (size_t i = 0; i < length; i++) {
        before = (before ^ at[i]) * UINT64_C(0x100000001B3);
    }
    return before;
}

#endif
