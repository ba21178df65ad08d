/* SPDX-License-Identifier: MIT */
/* The rendezvous packets: what was read is the same when written and read again. */
#include <string.h>

#include "backends/loopback/request.h"
#include "hello.h"

const char *fuzz_loopback_hello(const uint8_t *bytes, size_t length)
{
    struct lo_hello hello, again;
    uint8_t first[LO_PACKET], second[LO_PACKET];
    memset(&hello, 0, sizeof(hello));
    memset(&again, 0, sizeof(again));
    if (!vipl_lo_hello_read(&hello, bytes, length)) {
        return NULL;
    }
    if (!vipl_lo_hello_fits(&hello)) {
        return length >= 8 ? NULL : "a hello that is too short to be refused was read";
    }
    size_t written = vipl_lo_hello_write(&hello, first);
    if (written > length || hello.local.host_len > VIPL_MAX_HOST_ADDRESS ||
        hello.remote.disc_len > VIPL_MAX_DISCRIMINATOR) {
        return "a hello is longer than what it was read from";
    }
    if (!vipl_lo_hello_read(&again, first, written) || vipl_lo_hello_write(&again, second) != written ||
        memcmp(first, second, written) != 0) {
        return "a hello is not read as it was written";
    }
    return vipl_lo_hello_read(&again, first, written - 1) ? "a truncated hello was read" : NULL;
}

const char *fuzz_loopback_answer(const uint8_t *bytes, size_t length)
{
    struct lo_answer answer, again;
    uint8_t first[LO_PACKET], second[LO_PACKET];
    memset(&answer, 0, sizeof(answer));
    memset(&again, 0, sizeof(again));
    if (!vipl_lo_answer_read(&answer, bytes, length)) {
        return NULL;
    }
    size_t written = vipl_lo_answer_write(&answer, first);
    if (written > length) {
        return "an answer is longer than what it was read from";
    }
    if (!vipl_lo_answer_read(&again, first, written) || vipl_lo_answer_write(&again, second) != written ||
        memcmp(first, second, written) != 0) {
        return "an answer is not read as it was written";
    }
    return vipl_lo_answer_read(&again, first, written - 1) ? "a truncated answer was read" : NULL;
}
