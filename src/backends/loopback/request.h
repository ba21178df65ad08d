/* SPDX-License-Identifier: MIT */
/*
 * The packets that two processes exchange while they connect: a CONNECT_REQUEST of the requester, a
 * REPLY to it, and a NOTICE of a new listener. Their numbers are big-endian, at fixed offsets. The
 * first seven bytes of CONNECT_REQUEST and NOTICE (magic, version, byte order, word size) never
 * change place, so that any two versions can at least refuse each other.
 */
#ifndef VIPL_LOOPBACK_REQUEST_H
#define VIPL_LOOPBACK_REQUEST_H

#include "backends/loopback/link.h"

enum { LO_PACKET = 320 };

/* The kind of the process that wrote a packet. */
struct lo_writer {
    uint8_t version;
    uint8_t byte_order; /* 1 little, 2 big */
    uint8_t word_bytes;
};

struct lo_connect_request {
    struct lo_writer writer;
    bool peer; /* the request is symmetric */
    uint8_t process[LO_UID];
    uint8_t nic[LO_UID];
    /* of two symmetric requests, the one with the smaller id is answered */
    uint64_t id;
    struct vipl_peer_mark mark; /* the mark of the requester's program */
    uint32_t tag;
    /* with slot and number: what a claim of the request writes, see claims.h */
    uint32_t generation;
    uint16_t slot;
    uint8_t number; /* the number of the offer */
    uint8_t place;  /* symmetric: the place of the requester's own socket */
    struct vipl_vi_params params;
    struct vipl_address local;
    struct vipl_address remote;
};

struct lo_notice {
    struct lo_writer writer;
    /* the place of the new listener's socket, which has the hash of the receiving socket */
    uint8_t place;
};

enum lo_reply_type {
    /* the kind of the requester's process does not fit; `code` is the replying process's version */
    LO_REPLY_REFUSED = 2,
    LO_REPLY_REJECT = 5,
    /* symmetric: the params of the two VIs do not agree; `code` is the return code */
    LO_REPLY_DISAGREE,
    LO_REPLY_ACCEPT,
    /* control message: the offer ends without an answer, as a hang-up tells of other offers */
    LO_REPLY_GONE,
    /* control message of the requester: the offer is over */
    LO_REPLY_WITHDRAWN
};

struct lo_reply {
    uint8_t type;
    uint8_t code;
    bool new_link;      /* the link is new; its descriptors come along */
    bool direct_access; /* the acceptor may access the requester's memory */
    uint8_t nic[LO_UID];
    uint64_t link;
    uint32_t slots;
    uint32_t session; /* the number of the acceptor's session */
    uint32_t tag;
    struct vipl_peer_mark mark; /* the mark of the acceptor's program */
    struct vipl_vi_params params;
    /* with slot and number: the request and offer, as in the CONNECT_REQUEST */
    uint32_t generation;
    uint16_t slot;
    uint8_t number;
};

/* A reader returns false if the bytes are no such packet. Of a packet by a process of another kind
 * it reads the kind only. A writer returns the number of bytes. */
size_t vipl_lo_connect_request_write(const struct lo_connect_request *request, uint8_t bytes[LO_PACKET]);
bool vipl_lo_connect_request_read(struct lo_connect_request *request, const uint8_t *bytes, size_t length);
size_t vipl_lo_notice_write(const struct lo_notice *notice, uint8_t bytes[LO_PACKET]);
bool vipl_lo_notice_read(struct lo_notice *notice, const uint8_t *bytes, size_t length);
size_t vipl_lo_reply_write(const struct lo_reply *reply, uint8_t bytes[LO_PACKET]);
bool vipl_lo_reply_read(struct lo_reply *reply, const uint8_t *bytes, size_t length);
struct lo_writer vipl_lo_own_kind(void); /* the kind of this process */
/* Whether this process and the writer can share memory. */
bool vipl_lo_writer_fits(const struct lo_writer *writer);

#endif
