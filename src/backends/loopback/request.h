/* SPDX-License-Identifier: MIT */
/*
 * What two processes send each other while they connect, as bytes in big-endian order at fixed offsets: a CONNECT_REQUEST
 * by the requester, a REPLY to it, a NOTICE by a new listener. The first seven bytes of CONNECT_REQUEST and NOTICE (magic,
 * version, byte order, word size) never change place, so that any two versions can at least refuse each other.
 */
#ifndef VIPL_LOOPBACK_REQUEST_H
#define VIPL_LOOPBACK_REQUEST_H

#include "backends/loopback/link.h"

enum { LO_PACKET = 320 };

/* What kind of process wrote a packet. */
struct lo_writer {
    uint8_t version;
    uint8_t byte_order; /* 1 little, 2 big */
    uint8_t word_bytes;
};

struct lo_connect_request {
    struct lo_writer writer;
    bool peer; /* symmetric */
    uint8_t process[LO_UID];
    uint8_t nic[LO_UID];
    uint64_t id;                /* of the request: of two symmetric ones the smaller is answered */
    struct vipl_peer_mark mark; /* of the requester's program */
    uint32_t tag;
    uint32_t generation; /* with slot and number: what a claim of it writes, see claims.h */
    uint16_t slot;
    uint8_t number; /* of the connection that this travels over */
    uint8_t place;  /* symmetric: where the requester is to be found itself */
    struct vipl_vi_params params;
    struct vipl_address local;
    struct vipl_address remote;
};

struct lo_notice {
    struct lo_writer writer;
    uint8_t place; /* where the new listener is to be found, under the name that it writes to */
};

enum lo_reply_type {
    LO_REPLY_REFUSED = 2, /* another version, byte order or word size; `code` is the version */
    LO_REPLY_REJECT = 5,
    LO_REPLY_DISAGREE, /* symmetric: the two VIs do not fit; `code` says how */
    LO_REPLY_ACCEPT,
    LO_REPLY_GONE,     /* over a line: the request has not been taken, as a hang-up says elsewhere */
    LO_REPLY_WITHDRAWN /* over a line, by the requester itself: the offer is over */
};

struct lo_reply {
    uint8_t type;
    uint8_t code;
    bool new_link;      /* its descriptors come along */
    bool direct_access; /* the acceptor may access the requester's memory */
    uint8_t nic[LO_UID];
    uint64_t link;
    uint32_t slots;
    uint32_t session; /* the acceptor's number */
    uint32_t tag;
    struct vipl_peer_mark mark; /* of the acceptor's program */
    struct vipl_vi_params params;
    uint32_t generation; /* with slot and number: what the reply is to, as in the request */
    uint16_t slot;
    uint8_t number;
};

/* The readers return false for what is no such packet; of one by another kind of process they read the kind only. */
size_t vipl_lo_connect_request_write(const struct lo_connect_request *request, uint8_t bytes[LO_PACKET]);
bool vipl_lo_connect_request_read(struct lo_connect_request *request, const uint8_t *bytes, size_t length);
size_t vipl_lo_notice_write(const struct lo_notice *notice, uint8_t bytes[LO_PACKET]);
bool vipl_lo_notice_read(struct lo_notice *notice, const uint8_t *bytes, size_t length);
size_t vipl_lo_reply_write(const struct lo_reply *reply, uint8_t bytes[LO_PACKET]);
bool vipl_lo_reply_read(struct lo_reply *reply, const uint8_t *bytes, size_t length);
struct lo_writer vipl_lo_own_kind(void);
bool vipl_lo_writer_fits(const struct lo_writer *writer); /* this process and the writer can share memory */

#endif
