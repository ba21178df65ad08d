/* SPDX-License-Identifier: MIT */
/* MPA's private data: written again it is the same, but for reserved bits, which are zero. */
#include <string.h>

#include "backends/tcp/request.h"
#include "hello.h"

const char *fuzz_tcp_request(const uint8_t *bytes, size_t length)
{
    struct tcp_private_data data;
    uint8_t expected[VIPL_MPA_OUR_PRIVATE], again[VIPL_MPA_OUR_PRIVATE];
    if (!vipl_tcp_private_data_read(bytes, length, &data)) {
        return NULL;
    }
    if (length > sizeof(expected) - VIPL_MPA_ENHANCED_BYTES) {
        return "private data is longer than we write it";
    }
    memcpy(expected, bytes, length);
    expected[6] &= 0xEF;
    expected[10] = expected[11] = 0;
    if (vipl_tcp_private_data_write(again, &data) != length || memcmp(again, expected, length) != 0) {
        return "private data is not written as it was read";
    }
    return vipl_tcp_private_data_read(bytes, length - 1, &data) ? "truncated private data was read" : NULL;
}
