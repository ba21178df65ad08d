/* SPDX-License-Identifier: MIT */
/*
 * Work entries. Segments that do not fit into an entry are read from the driver's list each time
 * they are needed, a part at a time; each time they are copied, checked, and then used. A driver
 * that changes them in between harms its own memory alone.
 */
#include "devices/rnic/card/work.h"

#include "devices/rnic/card/dma.h"
#include "rnic/entry.h"

enum { PART = 16 };

/* Some segments of a work entry, as they were copied last. */
struct part {
    uint32_t first;
    uint32_t count;
    struct rnic_segment segment[PART];
};

static struct rnic_segment read_segment(const uint8_t *bytes, bool big)
{
    return (struct rnic_segment){.address = rnic_get64(bytes + RNIC_SEG_ADDRESS, big),
                                 .length = rnic_get32(bytes + RNIC_SEG_LENGTH, big),
                                 .stag = rnic_get32(bytes + RNIC_SEG_STAG, big)};
}

static void read_work(const uint8_t *entry, bool big, struct rnic_work *work)
{
    work->opcode = entry[RNIC_WQE_OPCODE];
    work->flags = entry[RNIC_WQE_FLAGS];
    work->segments = rnic_get16(entry + RNIC_WQE_SEGMENTS, big);
    work->cookie = rnic_get32(entry + RNIC_WQE_COOKIE, big);
    work->immediate = rnic_get32(entry + RNIC_WQE_IMMEDIATE, big);
    work->length = rnic_get32(entry + RNIC_WQE_LENGTH, big);
    work->remote_address = rnic_get64(entry + RNIC_WQE_REMOTE_ADDRESS, big);
    work->remote_stag = rnic_get32(entry + RNIC_WQE_REMOTE_STAG, big);
    work->segment[0] = read_segment(entry + RNIC_WQE_SEGMENT0, big);
    work->segment[1] = read_segment(entry + RNIC_WQE_SEGMENT1, big);
}

enum rnic_outcome rnic_work_fetch(struct rnic_card *card, uint32_t qp, struct rnic_ring *ring,
                                  struct rnic_work *work)
{
    unsigned fn = rnic_qp(card, qp)->fn;
    uint8_t entry[RNIC_WORK_BYTES];
    uint64_t at = ring->base + (uint64_t)(ring->next & ((1u << ring->log2) - 1)) * RNIC_WORK_BYTES;
    if (!rnic_dma_read(card, fn, qp, at, entry, sizeof(entry))) {
        return RNIC_WORK_BUS;
    }
    read_work(entry, rnic_fn(card, fn)->big != 0, work);
    work->behind = ++ring->next;
    return RNIC_WORK_GOOD;
}

/* --- segments --- */

static enum rnic_outcome load(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                              struct part *part, uint32_t n)
{
    unsigned fn = rnic_qp(card, qp)->fn;
    uint8_t bytes[PART * RNIC_SEGMENT_BYTES];
    part->first = n;
    part->count = work->segments - n < PART ? work->segments - n : PART;
    if (!rnic_dma_read(card, fn, qp, work->segment[0].address + (uint64_t)n * RNIC_SEGMENT_BYTES, bytes,
                       part->count * RNIC_SEGMENT_BYTES)) {
        return RNIC_WORK_BUS;
    }
    for (uint32_t i = 0; i < part->count; i++) {
        part->segment[i] = read_segment(bytes + (size_t)i * RNIC_SEGMENT_BYTES, rnic_fn(card, fn)->big != 0);
    }
    return RNIC_WORK_GOOD;
}

/* The n-th segment, n being less than work->segments. */
static enum rnic_outcome segment_of(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                    struct part *part, uint32_t n, struct rnic_segment *out)
{
    if ((work->flags & RNIC_WORK_FLAG_LIST) == 0) {
        *out = work->segment[n];
        return RNIC_WORK_GOOD;
    }
    if (n - part->first >= part->count) {
        enum rnic_outcome outcome = load(card, qp, work, part, n);
        if (outcome != RNIC_WORK_GOOD) {
            return outcome;
        }
    }
    *out = part->segment[n - part->first];
    return RNIC_WORK_GOOD;
}

enum rnic_outcome rnic_work_measure(struct rnic_card *card, uint32_t qp, const struct rnic_work *work)
{
    bool list = (work->flags & RNIC_WORK_FLAG_LIST) != 0;
    struct part part = {0};
    uint64_t sum = 0;
    if (work->length > RNIC_TRANSFER_MAX ||
        work->segments > (list ? RNIC_SEGMENT_LIMIT : RNIC_INLINE_SEGMENTS)) {
        return RNIC_WORK_BAD;
    }
    for (uint32_t n = 0; n < work->segments; n++) {
        struct rnic_segment segment;
        enum rnic_outcome outcome = segment_of(card, qp, work, &part, n, &segment);
        if (outcome != RNIC_WORK_GOOD) {
            return outcome;
        }
        sum += segment.length;
    }
    return sum == work->length ? RNIC_WORK_GOOD : RNIC_WORK_BAD;
}

/* What is to be done with each piece of memory: only checked, filled from, or copied to. */
struct use {
    enum rnic_access access;
    const uint8_t *in;
    uint8_t *out;
};

static enum rnic_outcome use_piece(struct rnic_card *card, uint32_t qp, struct use *use,
                                   const struct rnic_segment *piece)
{
    if (rnic_mr_check(card, qp, use->access, piece) != RNIC_ALLOWED) {
        return RNIC_WORK_DENIED;
    }
    if (piece->length > 0 && use->out != NULL) {
        bool good = rnic_mr_read(card, qp, piece, use->out);
        use->out += piece->length;
        return good ? RNIC_WORK_GOOD : RNIC_WORK_BUS;
    }
    if (piece->length > 0 && use->in != NULL) {
        bool good = rnic_mr_write(card, qp, piece, use->in);
        use->in += piece->length;
        return good ? RNIC_WORK_GOOD : RNIC_WORK_BUS;
    }
    return RNIC_WORK_GOOD;
}

static enum rnic_outcome use_bytes(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                   struct rnic_cursor *at, uint32_t bytes, struct use *use)
{
    struct part part = {0};
    while (bytes > 0) {
        struct rnic_segment segment;
        if (at->segment >= work->segments) {
            return RNIC_WORK_DENIED; /* a list that has become shorter */
        }
        enum rnic_outcome outcome = segment_of(card, qp, work, &part, at->segment, &segment);
        if (outcome != RNIC_WORK_GOOD) {
            return outcome;
        }
        uint32_t left = segment.length > at->offset ? segment.length - at->offset : 0;
        struct rnic_segment piece = {segment.address + at->offset, left < bytes ? left : bytes, segment.stag};
        outcome = use_piece(card, qp, use, &piece);
        if (outcome != RNIC_WORK_GOOD) {
            return outcome;
        }
        bytes -= piece.length;
        at->offset += piece.length;
        if (piece.length == left) {
            *at = (struct rnic_cursor){.segment = at->segment + 1};
        }
    }
    return RNIC_WORK_GOOD;
}

enum rnic_outcome rnic_work_check(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                  const struct rnic_cursor *at, uint32_t bytes, enum rnic_access access)
{
    struct rnic_cursor copy = *at;
    struct use use = {.access = access};
    return use_bytes(card, qp, work, &copy, bytes, &use);
}

enum rnic_outcome rnic_work_gather(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                   struct rnic_cursor *at, uint8_t *out, uint32_t bytes)
{
    struct use use = {.access = RNIC_ACCESS_LOCAL_READ, .out = out};
    return use_bytes(card, qp, work, at, bytes, &use);
}

enum rnic_outcome rnic_work_scatter(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                    struct rnic_cursor *at, const uint8_t *in, uint32_t bytes)
{
    struct use use = {.access = RNIC_ACCESS_LOCAL_WRITE, .in = in};
    return use_bytes(card, qp, work, at, bytes, &use);
}
