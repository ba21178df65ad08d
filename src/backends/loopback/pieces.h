/* SPDX-License-Identifier: MIT */
/*
 * The payload of LO_RENDEZVOUS: where a message lies that its receiver fetches. It is a list of
 * pieces, each with its address and length in the sender's process. With LO_FLAG_MAPPABLE it also
 * names the memory in which all pieces lie and which the receiver may map (mapped.h): fetching is
 * then a copy, and takes no system call.
 */
#ifndef VIPL_LOOPBACK_PIECES_H
#define VIPL_LOOPBACK_PIECES_H

#include "backends/loopback/ring.h"
#include "base/iov.h"

struct lo_link;

enum {
    LO_PIECE = 16, /* address and length, 8 bytes each */
    /* descriptor (4, and 4 of 0), inode (8), and the address where the memory begins (8) */
    LO_MAPPABLE_BYTES = 24
};

/* The pieces of a message, and the mappable memory in which all of them lie. */
struct lo_pieces {
    const struct vipl_sg *local;
    uint64_t start; /* the address where that memory begins */
    struct vipl_mappable mappable;
    bool are_mappable; /* all pieces lie in such memory */
};

/* --- the sender --- */

/* Describes the pieces of a list. */
void vipl_lo_pieces_find(struct lo_pieces *pieces, const struct vipl_sg *local);
/* Returns the number of bytes that vipl_lo_pieces_put() writes. */
uint32_t vipl_lo_pieces_bytes(const struct lo_pieces *pieces);
void vipl_lo_pieces_put(unsigned char *payload, const struct lo_pieces *pieces);

/* --- the receiver --- */

/* Copies the list out of the ring, once. out->iov has room for VIPL_MAX_SEGMENTS. Returns false if
 * the list is not valid or does not add up to the message. */
bool vipl_lo_pieces_read(const struct lo_message *m, const unsigned char *payload, struct vipl_sg *out);
/* Replaces the addresses of the pieces by those at which they are mapped in this process. Returns
 * false, and leaves *from as it was, if they are not all mapped. */
bool vipl_lo_pieces_map(struct lo_link *link, const struct lo_message *m, const unsigned char *payload,
                        struct vipl_sg *from);

#endif
