/* SPDX-License-Identifier: MIT */
/* A pair of queues; see queue.h. */
#include "dm/nvme/queue.h"

#include <string.h>

#include "dm/bytes.h"

void dm_nvme_queue_init(struct dm_nvme_queue *queue, struct dm_pci *pci, unsigned number, uint32_t entries,
                        uint32_t stride)
{
    queue->pci = pci;
    queue->entries = entries;
    queue->tail = 0;
    queue->head = 0;
    queue->tail_doorbell = NVME_DOORBELLS + 2 * number * stride;
    queue->head_doorbell = queue->tail_doorbell + stride;
    queue->phase = 1;
}

uint8_t *dm_nvme_queue_entry(struct dm_nvme_queue *queue, unsigned opcode, uint16_t id)
{
    uint8_t *entry = queue->commands + (size_t)queue->tail * NVME_ENTRY_BYTES;

    memset(entry, 0, NVME_ENTRY_BYTES);
    entry[NVME_ENTRY_OPCODE] = (uint8_t)opcode;
    dm_put_little(entry + NVME_ENTRY_ID, id, 2);
    return entry;
}

void dm_nvme_queue_ring(struct dm_nvme_queue *queue)
{
    queue->tail = queue->tail + 1 < queue->entries ? queue->tail + 1 : 0;
    queue->pci->ops->write(queue->pci, queue->tail_doorbell, queue->tail);
}

/* The phase is in the last word of an answer, which the controller writes at once. */
bool dm_nvme_queue_take(struct dm_nvme_queue *queue, struct dm_nvme_answer *answer)
{
    const uint8_t *at = queue->answers + (size_t)queue->head * NVME_ANSWER_BYTES + NVME_ANSWER_ID;
    uint32_t word = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
    uint8_t bytes[4];
    uint16_t status;

    memcpy(bytes, &word, sizeof(bytes));
    status = dm_get16(bytes + 2, false);
    if ((status & 1) != queue->phase) {
        return false;
    }
    answer->id = dm_get16(bytes, false);
    answer->status = NVME_STATUS(status);
    queue->head++;
    if (queue->head == queue->entries) {
        queue->head = 0;
        queue->phase ^= 1;
    }
    queue->pci->ops->write(queue->pci, queue->head_doorbell, queue->head);
    return true;
}
