/* SPDX-License-Identifier: MIT */
/*
 * A sender: a ring of chunks of memory, which are filled from the store in the order of the index,
 * and a batch of packets that are due. One thread.
 *
 *   FREE -> READING -> READY -> SENDING -> FREE
 *
 * A chunk is READING from the submission of its transfer to the end of it, and SENDING from its
 * last packet's way to the port to the port's word that this packet is sent. If the ring has room
 * for the whole recording, each chunk is read once and stays READY from then on.
 */
#ifndef VIPL_DM_SENDER_H
#define VIPL_DM_SENDER_H

#include <stdbool.h>

#include "dm/clock.h"
#include "dm/index.h"
#include "dm/memory.h"
#include "dm/pace.h"
#include "dm/port.h"
#include "dm/store.h"

enum dm_chunk_state { DM_CHUNK_FREE, DM_CHUNK_READING, DM_CHUNK_READY, DM_CHUNK_SENDING };

struct dm_chunk {
    enum dm_chunk_state state;
    uint8_t *at;
    uint64_t base;  /* in the store, of its first byte */
    uint64_t first; /* entry of the index */
    uint64_t end;   /* behind its last entry */
    uint64_t last;  /* SENDING: packets that the port had taken with the chunk's last one */
    uint32_t bytes;
};

/* What a sender is made of; it closes them. */
struct dm_sender_parts {
    struct dm_store *store;
    struct dm_memory *memory;
    struct dm_port *port;
    const struct dm_clock *clock;
    struct dm_index index;
};

struct vipl_dm_sender {
    struct dm_sender_parts parts;
    struct vipl_dm_send send; /* its texts are not kept */
    struct vipl_dm_counters counters;
    struct dm_sent left; /* what the port has said last */
    struct dm_pace pace;
    const struct dm_clock *clock; /* of the pace: the parts' one, or the port's launch clock */
    uint64_t start;               /* by it */
    uint64_t handed;              /* packets that the port has taken */
    uint64_t mean_gap; /* between the last packet of the recording and the first one of the next pass */

    struct dm_chunk *chunks;
    uint32_t chunk_bytes;
    uint32_t ring;       /* chunks */
    bool is_resident;    /* the ring has the whole recording */
    uint32_t read_next;  /* the chunk that is read next */
    uint32_t free_next;  /* the oldest chunk that may be SENDING */
    uint32_t reading;    /* transfers on their way */
    uint64_t read_entry; /* of the index, that is read next */

    uint32_t chunk;  /* from which packets are taken */
    uint64_t entry;  /* of the index, that is taken next */
    uint64_t taken;  /* packets that are in the batch or beyond */
    uint64_t passes; /* of the recording, that are over */
    bool has_entry;  /* `entry` is a packet whose gap the pace knows */
    bool is_taken;   /* everything is in the batch or beyond */
    bool is_started;
    bool launches;   /* the port lets packets leave at their times */
    bool is_waiting; /* for the store, with a packet that is due */
    bool is_full;    /* the port was full, or it is not known why it took no more */

    struct dm_packet batch[DM_BATCH];
    uint64_t released[DM_BATCH]; /* when each might leave */
    bool is_partial[DM_BATCH];
    unsigned batch_first;
    unsigned batch_count;
};

/* The parts become the sender's, also if it fails. Fills the ring. */
int dm_sender_create(const struct vipl_dm_send *send, const struct dm_sender_parts *parts,
                     struct vipl_dm_sender **out, struct vipl_dm_reason *reason);

/* sender_chunks.c: divides memory into chunks. 0, or an errno value and why. */
int dm_sender_divide(struct vipl_dm_sender *sender, struct vipl_dm_reason *reason);
/* Submits what can be read, and takes what has been read; waits for one chunk if asked to. */
int dm_sender_read(struct vipl_dm_sender *sender, bool wait, struct vipl_dm_reason *reason);
/* Chunks whose packets are all sent become FREE. */
void dm_sender_free_chunks(struct vipl_dm_sender *sender);
/* Waits for all transfers, whatever becomes of them. */
void dm_sender_quiet(struct vipl_dm_sender *sender);

#endif
