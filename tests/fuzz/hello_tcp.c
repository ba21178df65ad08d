/* SPDX-License-Identifier: MIT */
/* MPA's private data: written again it is the same, but for reserved bits, which are zero. */
#include <string.h>

#include "backends/tcp/tcp.h"
#include "hello.h"

const char *fuzz_socket_hello(const uint8_t *bytes, size_t length)
{
    struct tcp_hello hello;
    uint8_t expected[VIPL_MPA_OUR_PRIVATE], again[VIPL_MPA_OUR_PRIVATE];
    if (!vipl_tcp_hello_read(bytes, length, &hello)) {
        return NULL;
    }
    if (length > sizeof(expected) - VIPL_MPA_ENHANCED_BYTES) {
        return "a hello is longer than we write them";
    }
    memcpy(expected, bytes, length);
    expected[6] &= 0xEF;
    expected[10] = expected[11] = 0;
    if (vipl_tcp_hello_write(again, &hello) != length || memcmp(again, expected, length) != 0) {
        return "a hello is not written as it was read";
    }
    return vipl_tcp_hello_read(bytes, length - 1, &hello) ? "a truncated hello was read" : NULL;
}
