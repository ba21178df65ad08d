/* SPDX-License-Identifier: MIT */
/*
 * What two processes tell each other over a rendezvous socket, as bytes in big-endian order at fixed
 * offsets: a HELLO from the one who wants to connect, then ANSWERs. The first bytes (magic, version,
 * byte order, word size) never change place, so that any two versions can at least refuse each other.
 */
#ifndef VIPL_LOOPBACK_REQUEST_H
#define VIPL_LOOPBACK_REQUEST_H

#include "backends/loopback/link.h"

enum { LO_PACKET = 320 };

struct lo_hello {
    uint8_t version;
    uint8_t byte_order; /* 1 little, 2 big */
    uint8_t word_bytes;
    bool peer;   /* symmetric */
    bool beside; /* it has a place elsewhere, and only asks for somebody who waits now. Never both */
    uint8_t process[LO_UID];
    uint8_t nic[LO_UID];
    uint64_t id; /* of the request: the smaller of two that meet wins */
    uint64_t probe_address;
    uint32_t probe_value;
    uint32_t tag;
    struct vipl_vi_params params;
    struct vipl_address local;
    struct vipl_address remote;
};

enum lo_answer_type {
    LO_ANSWER_NO = 1,  /* nobody here wants that; ask elsewhere */
    LO_ANSWER_REFUSED, /* another version, byte order or word size */
    LO_ANSWER_QUEUED, /* the request waits here; `code` is LO_IDLE if nobody waits for it. May be said again */
    LO_ANSWER_TAKEN,  /* a program has it before it */
    LO_ANSWER_REJECT,
    LO_ANSWER_DISAGREE, /* symmetric: the two VIs do not fit; `code` says how */
    LO_ANSWER_ACCEPT
};

enum { LO_IDLE = 1 };

struct lo_answer {
    uint8_t type;
    uint8_t code;
    bool new_link;  /* its descriptors come along */
    bool can_reach; /* the acceptor may access the requester's memory */
    uint8_t nic[LO_UID];
    uint64_t link;
    uint32_t slots;
    uint32_t session; /* the acceptor's number */
    uint32_t tag;
    uint32_t probe_value;
    uint64_t probe_address;
    struct vipl_vi_params params;
};

size_t vipl_lo_hello_write(const struct lo_hello *h, uint8_t bytes[LO_PACKET]);
bool vipl_lo_hello_read(struct lo_hello *hello, const uint8_t *bytes, size_t length); /* false: not one */
size_t vipl_lo_answer_write(const struct lo_answer *a, uint8_t bytes[LO_PACKET]);
bool vipl_lo_answer_read(struct lo_answer *answer, const uint8_t *bytes, size_t length);
/* Whether this process and the writer of the hello can share memory. */
bool vipl_lo_hello_fits(const struct lo_hello *hello);
void vipl_lo_hello_identify(struct lo_hello *hello);

#endif
