/* SPDX-License-Identifier: MIT */
/* The payload of LO_RENDEZVOUS: writing and reading it. */
#include "backends/loopback/pieces.h"

#include <string.h>

#include "backends/loopback/mapped.h"

static uint64_t address_of(const struct vipl_iov *piece)
{
    return (uint64_t)(uintptr_t)piece->base;
}

/* --- the sender --- */

void vipl_lo_pieces_find(struct lo_pieces *pieces, const struct vipl_sg *local)
{
    const struct vipl_iov *first = &local->iov[0];
    pieces->local = local;
    vipl_shm_find_mappable(first->base, first->len, &pieces->mappable);
    pieces->start = address_of(first) - pieces->mappable.offset;
    pieces->are_mappable = pieces->mappable.descriptor != 0;
    for (unsigned i = 1; i < local->count && pieces->are_mappable; i++) {
        const struct vipl_iov *piece = &local->iov[i];
        struct vipl_mappable mappable;
        vipl_shm_find_mappable(piece->base, piece->len, &mappable);
        pieces->are_mappable = mappable.descriptor == pieces->mappable.descriptor &&
                               mappable.inode == pieces->mappable.inode &&
                               address_of(piece) - mappable.offset == pieces->start;
    }
}

uint32_t vipl_lo_pieces_bytes(const struct lo_pieces *pieces)
{
    return pieces->local->count * LO_PIECE + (pieces->are_mappable ? LO_MAPPABLE_BYTES : 0);
}

void vipl_lo_pieces_put(unsigned char *payload, const struct lo_pieces *pieces)
{
    for (unsigned i = 0; i < pieces->local->count; i++) {
        uint64_t piece[2] = {address_of(&pieces->local->iov[i]), pieces->local->iov[i].len};
        memcpy(payload, piece, LO_PIECE);
        payload += LO_PIECE;
    }
    if (pieces->are_mappable) {
        uint32_t descriptor[2] = {pieces->mappable.descriptor, 0};
        memcpy(payload, descriptor, 8);
        memcpy(payload + 8, &pieces->mappable.inode, 8);
        memcpy(payload + 16, &pieces->start, 8);
    }
}

/* --- the receiver --- */

static uint32_t mappable_bytes(const struct lo_message *m)
{
    return (m->flags & LO_FLAG_MAPPABLE) != 0 ? LO_MAPPABLE_BYTES : 0;
}

bool vipl_lo_pieces_read(const struct lo_message *m, const unsigned char *payload, struct vipl_sg *out)
{
    uint32_t behind = mappable_bytes(m);
    uint64_t sum = 0;
    if (m->bytes < behind || (m->bytes - behind) % LO_PIECE != 0 ||
        (m->bytes - behind) / LO_PIECE > VIPL_MAX_SEGMENTS) {
        return false;
    }
    out->count = (m->bytes - behind) / LO_PIECE;
    for (unsigned i = 0; i < out->count; i++) {
        uint64_t piece[2];
        memcpy(piece, payload + (size_t)i * LO_PIECE, LO_PIECE);
        out->iov[i].base = (void *)(uintptr_t)piece[0];
        out->iov[i].len = (size_t)piece[1];
        if (piece[1] > UINT32_MAX) {
            return false;
        }
        sum += piece[1];
    }
    out->bytes = (size_t)sum;
    return sum == m->total;
}

/* Returns where a piece is mapped in this process, or NULL. */
static unsigned char *find_mapped_piece(struct lo_link *link, const struct lo_pieces *pieces,
                                        const struct vipl_iov *piece)
{
    struct vipl_mappable mappable = pieces->mappable;
    /* of a piece before it: larger than any memory */
    mappable.offset = address_of(piece) - pieces->start;
    return vipl_lo_mapped_find(link, &mappable, piece->len);
}

bool vipl_lo_pieces_map(struct lo_link *link, const struct lo_message *m, const unsigned char *payload,
                        struct vipl_sg *from)
{
    const unsigned char *behind = payload + m->bytes - mappable_bytes(m);
    struct lo_pieces pieces = {.local = from};
    if (mappable_bytes(m) == 0) {
        return false;
    }
    memcpy(&pieces.mappable.descriptor, behind, 4);
    memcpy(&pieces.mappable.inode, behind + 8, 8);
    memcpy(&pieces.start, behind + 16, 8);
    for (unsigned i = 0; i < from->count; i++) {
        if (find_mapped_piece(link, &pieces, &from->iov[i]) == NULL) {
            return false;
        }
    }
    for (unsigned i = 0; i < from->count; i++) {
        from->iov[i].base = find_mapped_piece(link, &pieces, &from->iov[i]);
    }
    return true;
}
