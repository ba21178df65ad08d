/* SPDX-License-Identifier: MIT */
/*
 * Taking completions off the boards of shared queues: by any process, without a call or a lock. Who loses a race for an
 * entry takes the next one; who is killed at any instruction has taken one or has not.
 */
#include <string.h>

#include "core/share.h"

static uint64_t read_entry(const uint64_t *entry)
{
    const uint32_t *halves = (const uint32_t *)(const void *)entry;
    uint32_t to[2] = {vipl_load_relaxed(&halves[0]), vipl_load_relaxed(&halves[1])};
    uint64_t value;
    memcpy(&value, to, sizeof(value));
    return value;
}

VIP_RETURN vipl_board_take(struct vipl_board *board, VIP_DESCRIPTOR **descriptor)
{
    uint64_t entry;
    uint32_t reaped;
    do {
        reaped = vipl_load_acquire(&board->reaped);
        if (reaped ==
            vipl_load_acquire(&board->completed)) { /* pairs with the keeper's store, after the entry */
            return VIP_NOT_DONE;
        }
        entry = read_entry(&board->entries[reaped % VIPL_SHARE_DEPTH]);
    } while (!vipl_compare_exchange(&board->reaped, reaped, reaped + 1));
    *descriptor = (VIP_DESCRIPTOR *)(uintptr_t)(entry & ~VIPL_BOARD_FAILED);
    return (entry & VIPL_BOARD_FAILED) != 0 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}

/* Whether the entry's queue has a completion of which nobody was told; then this process is told now. What was reaped
 * without being told of counts as told. */
static bool announce(struct vipl_board *board)
{
    for (;;) {
        uint32_t completed = vipl_load_acquire(&board->completed);
        uint32_t announced = vipl_load_ordered(&board->announced);
        uint32_t reaped = vipl_load_ordered(&board->reaped);
        uint32_t told = completed - announced > completed - reaped ? reaped : announced;
        if (told == completed) {
            return false;
        }
        if (vipl_compare_exchange(&board->announced, announced, told + 1)) {
            return true;
        }
    }
}

static bool take_entry(struct vipl_cq_board *board, uint32_t *code)
{
    uint32_t taken;
    do {
        taken = vipl_load_acquire(&board->taken);
        if (taken == vipl_load_acquire(&board->pushed)) { /* pairs with the keeper's store, after the entry */
            return false;
        }
        *code = vipl_load_relaxed(&board->entries[taken % VIPL_SHARE_ENTRIES]);
    } while (!vipl_compare_exchange(&board->taken, taken, taken + 1));
    return true;
}

VIP_RETURN vipl_cq_board_take(struct vipl_arena *arena, struct vipl_cq_board *cq, void **vi,
                              VIP_BOOLEAN *recv)
{
    uint32_t code;
    uint32_t number = (uint32_t)(cq - arena->cqs) + 1;
    while (take_entry(cq, &code)) {
        struct vipl_vi_board *board = &arena->vis[code >> 1 & (VIPL_SHARE_VIS - 1)];
        struct vipl_board *queue = &board->queues[code & 1];
        *vi = vipl_load_ptr((void *const *)&board->handle);
        if (*vi != NULL && queue->cq == number && announce(queue)) {
            *recv = (code & 1) != 0 ? VIP_TRUE : VIP_FALSE;
            return VIP_SUCCESS;
        }
    }
    *vi = NULL;
    return VIP_NOT_DONE;
}
