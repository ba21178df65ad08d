/* SPDX-License-Identifier: MIT */
/*
 * A pair of queues of a controller: commands to it, and their ends from it. The controller writes
 * the ends at any time, and may be broken: what an end says is copied once, and compared with what
 * there is by the caller.
 */
#ifndef VIPL_DM_NVME_QUEUE_H
#define VIPL_DM_NVME_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "dm/nvme/registers.h"
#include "dm/pci.h"

struct dm_nvme_queue {
    struct dm_pci *pci;
    uint8_t *commands; /* entries of NVME_ENTRY_BYTES */
    uint8_t *answers;  /* entries of NVME_ANSWER_BYTES */
    uint32_t entries;  /* of each; one more than there are commands at a time */
    uint32_t tail;     /* where the next command goes */
    uint32_t head;     /* where the next answer comes */
    uint32_t tail_doorbell;
    uint32_t head_doorbell;
    uint8_t phase; /* of answers of this round */
};

struct dm_nvme_answer {
    uint16_t id;
    uint16_t status; /* 0: it is done */
};

/* Queue `number`, of zeroed memory. `stride`: bytes from doorbell to doorbell. */
void dm_nvme_queue_init(struct dm_nvme_queue *queue, struct dm_pci *pci, unsigned number, uint32_t entries,
                        uint32_t stride);

/* The next entry, zeroed, with opcode and id; dm_nvme_queue_ring() hands it over. */
uint8_t *dm_nvme_queue_entry(struct dm_nvme_queue *queue, unsigned opcode, uint16_t id);
void dm_nvme_queue_ring(struct dm_nvme_queue *queue);

/* Takes the oldest answer. False: there is none. */
bool dm_nvme_queue_take(struct dm_nvme_queue *queue, struct dm_nvme_answer *answer);

#endif
