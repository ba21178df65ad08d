/* SPDX-License-Identifier: MIT */
/*
 * What the two sides of a connection tell each other about credits, with the program's private data
 * behind it. The requester's is in the discriminator of its address, which the listener sees. VIPL
 * has no data of an answer: the accepting side's is its first message. A rejection with private
 * data is a connection that ends after that message.
 *
 * Numbers are big-endian: magic, version, 1 if accepted or asked, bytes of private data; receives
 * posted (4), credit handle (4), credit address (8); private data. A peer may send anything.
 */
#include <string.h>

#include "provider.h"

enum { MAGIC = 0x5f, VERSION = 1, FIXED = PROV_HELLO_BYTES - PROV_CM_DATA };

static void put(uint8_t *out, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    }
}

static uint64_t get(const uint8_t *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | in[i];
    }
    return value;
}

size_t prov_hello_write(const struct prov_hello *hello, uint8_t out[PROV_HELLO_BYTES])
{
    out[0] = MAGIC;
    out[1] = VERSION;
    out[2] = hello->accepted ? 1 : 0;
    out[3] = (uint8_t)hello->bytes;
    put(out + 4, 4, hello->posted);
    put(out + 8, 4, hello->credit_handle);
    put(out + 12, 8, hello->credit_address);
    memcpy(out + FIXED, hello->data, hello->bytes);
    return FIXED + hello->bytes;
}

bool prov_hello_read(const uint8_t *in, size_t bytes, struct prov_hello *hello)
{
    if (bytes < FIXED || in[0] != MAGIC || in[1] != VERSION || in[3] > PROV_CM_DATA ||
        bytes < FIXED + (size_t)in[3]) {
        return false;
    }
    hello->accepted = in[2] == 1;
    hello->bytes = in[3];
    hello->posted = (uint32_t)get(in + 4, 4);
    hello->credit_handle = (uint32_t)get(in + 8, 4);
    hello->credit_address = get(in + 12, 8);
    memcpy(hello->data, in + FIXED, hello->bytes);
    return true;
}
