/* SPDX-License-Identifier: MIT */
/* What was read and is written again is the same, but for bytes and bits that mean nothing. */
#include "datagrams.h"

#include <string.h>

#include "rdm.h"

/* An offer is of pieces that make up its message. */
static bool is_whole(const struct rdm_head *head)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < head->count; i++) {
        if (head->pieces[i].length == 0 || head->pieces[i].length > head->length - bytes) {
            return false;
        }
        bytes += head->pieces[i].length;
    }
    return bytes == head->length;
}

const char *fuzz_datagram_head(const uint8_t *bytes, size_t length)
{
    struct rdm_head head;
    uint8_t expected[RDM_HEAD_BYTES + PROV_IOVS * RDM_PIECE_BYTES];
    uint8_t again[sizeof(expected)];
    size_t read = rdm_head_read(bytes, length, &head);
    if (read == 0) {
        return NULL;
    }
    if (read > length || read > sizeof(expected)) {
        return "a head is longer than what came";
    }
    bool is_first = head.kind == RDM_MESSAGE && length - read == RDM_EAGER && head.length <= RDM_COPIED;
    bool has_bytes = head.kind == RDM_MESSAGE || head.kind == RDM_MORE;
    if ((has_bytes && head.length != length - read && !(is_first && head.length > RDM_EAGER)) ||
        (head.kind == RDM_OFFER && !is_whole(&head))) {
        return "a message is not as long as its head says";
    }
    memcpy(expected, bytes, read);
    expected[1] &= 3;
    expected[3] = 0;
    for (size_t i = 0; i < head.count; i++) {
        memset(expected + RDM_HEAD_BYTES + i * RDM_PIECE_BYTES + 20, 0, 4);
    }
    return rdm_head_write(&head, again) == read && memcmp(again, expected, read) == 0
               ? NULL
               : "a head is not written as it was read";
}

const char *fuzz_datagram_name(const uint8_t *bytes, size_t length)
{
    struct sockaddr_storage name;
    uint8_t again[RDM_NAME_BYTES];
    size_t written;
    if (rdm_name_read(bytes, length, &name) == 0) {
        return NULL;
    }
    written = rdm_name_write(&name, again);
    return written <= length && again[0] == bytes[0] && memcmp(again + 2, bytes + 2, written - 2) == 0
               ? NULL
               : "an address is not written as it was read";
}

const char *fuzz_connection_hello(const uint8_t *bytes, size_t length)
{
    struct prov_hello hello;
    uint8_t expected[PROV_HELLO_BYTES], again[PROV_HELLO_BYTES];
    if (!prov_hello_read(bytes, length, &hello)) {
        return NULL;
    }
    size_t written = prov_hello_write(&hello, again);
    if (written > length) {
        return "a hello is longer than what came";
    }
    memcpy(expected, bytes, written);
    expected[2] = hello.accepted ? 1 : 0;
    return memcmp(again, expected, written) == 0 ? NULL : "a hello is not written as it was read";
}
