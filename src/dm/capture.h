/* SPDX-License-Identifier: MIT */
/*
 * A capture: memory is divided into chunks, chunks into slots, and slots are posted to the port in
 * their order. A chunk is POSTED from the first of its slots on, WRITING once all are filled, and
 * FREE when the store has it. One thread.
 */
#ifndef VIPL_DM_CAPTURE_H
#define VIPL_DM_CAPTURE_H

#include <stdbool.h>

#include "dm/clock.h"
#include "dm/memory.h"
#include "dm/output.h"
#include "dm/port.h"

enum dm_room_state { DM_ROOM_FREE, DM_ROOM_POSTED, DM_ROOM_WRITING };

/* A chunk of slots. */
struct dm_room {
    enum dm_room_state state;
    uint8_t *at;
    uint32_t posted; /* slots */
    uint32_t filled; /* slots */
    uint32_t dense;  /* bytes of blocks without fillers, from `at` on */
    uint64_t first;  /* times of the first and the last packet */
    uint64_t last;
};

/* What a capture is made of, besides its files; it closes them. */
struct dm_capture_parts {
    struct dm_memory *memory;
    struct dm_port *port;
    const struct dm_clock *clock;
};

struct vipl_dm_capture {
    struct dm_capture_parts parts;
    struct vipl_dm_receive receive; /* its texts are not kept */
    struct vipl_dm_counters counters;
    struct dm_outputs outputs;
    struct dm_room *rooms;
    uint32_t ring; /* chunks */
    uint32_t slot_bytes;
    uint32_t slots; /* of one chunk */
    uint32_t snaplen;
    uint32_t post_room; /* the chunk whose slots are posted next */
    uint32_t fill_room; /* the chunk whose slots are filled next */
    uint32_t posted;    /* slots that the port has */
    uint64_t start;
    bool is_starved; /* the port has no slot, and there is none for it */
};

/* The parts become the capture's, also if it fails. Opens the files that `receive` names. */
int dm_capture_create(const struct vipl_dm_receive *receive, const struct dm_capture_parts *parts,
                      struct vipl_dm_capture **out, struct vipl_dm_reason *reason);

/* capture.c: posts the slots that there are. */
void dm_capture_post(struct vipl_dm_capture *capture);

#endif
