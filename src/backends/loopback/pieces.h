/* SPDX-License-Identifier: MIT */
/*
 * Where a message lies that its receiver fetches: what the payload of LO_RENDEZVOUS says. A list of the pieces, as address and
 * length in the sender's process; and, with LO_FLAG_MAPPABLE, which memory they all lie in that the receiver may map (mapped.h), so
 * that fetching is a copy and takes no system call.
 */
#ifndef VIPL_LOOPBACK_PIECES_H
#define VIPL_LOOPBACK_PIECES_H

#include "backends/loopback/ring.h"
#include "base/iov.h"

struct lo_link;

enum {
    LO_PIECE = 16, /* address and length, 8 bytes each */
    LO_MAPPABLE_BYTES =
        24 /* descriptor (4, and 4 of 0), inode (8), and the address where the memory begins (8) */
};

/* The pieces of a message, and the memory that all of them lie in. */
struct lo_pieces {
    const struct vipl_sg *local;
    uint64_t start; /* where that memory begins */
    struct vipl_mappable mappable;
    bool are_mappable; /* else they lie elsewhere */
};

/* --- the sender --- */

void vipl_lo_pieces_find(struct lo_pieces *pieces, const struct vipl_sg *local);
uint32_t vipl_lo_pieces_bytes(const struct lo_pieces *pieces); /* of payload */
void vipl_lo_pieces_put(unsigned char *payload, const struct lo_pieces *pieces);

/* --- the receiver --- */

/* The list, copied out of the ring once; out->iov has room for VIPL_MAX_SEGMENTS. False: it does not add up to the message. */
bool vipl_lo_pieces_read(const struct lo_message *m, const unsigned char *payload, struct vipl_sg *out);
/* The same bytes where they are mapped here. False: they are not in such memory, and *from is as it was. */
bool vipl_lo_pieces_map(struct lo_link *link, const struct lo_message *m, const unsigned char *payload,
                        struct vipl_sg *from);

#endif
