/* SPDX-License-Identifier: MIT */
/*
 * The files of a capture: one, or a ring of them. A file that is full is ended once the transfers
 * into it have ended, while packets go to the next one already.
 */
#ifndef VIPL_DM_OUTPUT_H
#define VIPL_DM_OUTPUT_H

#include <stdbool.h>

#include "dm/section.h"
#include "dm/store.h"

/* Files that are open at a time: the one that grows, and full ones with transfers on their way. */
#define DM_MAX_OUTPUTS 4U

/* One file. Of the capture's thread, as all here. */
struct dm_output {
    struct dm_store *store; /* NULL: this place is free */
    uint64_t bytes;         /* behind what has been submitted */
    uint32_t pending;       /* transfers */
    bool is_full;
    uint64_t first; /* times of its first and its last packet */
    uint64_t last;
};

struct dm_outputs {
    char name[4096];     /* of the store, KIND:ARGUMENT */
    uint64_t ring_bytes; /* 0: one file */
    uint32_t ring_files;
    uint64_t number; /* of the newest file of the ring, from 1 on */
    bool is_compact;
    uint32_t slot_bytes;
    const struct dm_memory *memory; /* that chunks come from */
    struct dm_section section;
    struct dm_statistics statistics; /* of the whole capture, kept up by it */
    uint8_t *head;                   /* DM_HEAD_ROOM bytes to build heads in */
    struct dm_output outputs[DM_MAX_OUTPUTS];
    unsigned current;
};

/* Opens the first file. `outputs` has its name, ring, memory, section and slots. */
int dm_outputs_begin(struct dm_outputs *outputs, struct vipl_dm_reason *reason);

/* Writes a chunk with packets of these times behind what is there, in the file that is current, or
 * in a new one if that is full. The transfer's cookie comes back from dm_outputs_reap(); bytes are
 * whole units of the store, of which `used` count. */
int dm_outputs_write(struct dm_outputs *outputs, struct dm_transfer *transfer, uint32_t used, uint64_t first,
                     uint64_t last, struct vipl_dm_reason *reason);

/* Transfers that have ended, at most `room`; -1: one has failed, and why. Waits for one if asked
 * to, and if one is on its way. */
int dm_outputs_reap(struct dm_outputs *outputs, uint32_t *cookies, unsigned room, bool wait,
                    struct vipl_dm_reason *reason);

/* Transfers on their way. */
uint32_t dm_outputs_pending(const struct dm_outputs *outputs);

/* Ends the file that is current; no transfer is on its way. */
int dm_outputs_end(struct dm_outputs *outputs, struct vipl_dm_reason *reason);

/* Closes what is open. No transfer is on its way. */
void dm_outputs_close(struct dm_outputs *outputs);

/* The name of a file of a ring: its number before the end of the name. False: it does not fit. */
bool dm_output_name(const char *name, uint64_t number, char *text, size_t room);

#endif
