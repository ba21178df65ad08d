/* SPDX-License-Identifier: MIT */
/*
 * A buddy allocator: blocks of powers of two, halved and joined again, each step in constant time
 * however the table is broken up. A free block's first entry holds its links; a byte for each entry
 * says whether a free block begins there, and of which size.
 */
#include "devices/rnic/card/pbl.h"

static uint8_t *mark_of(const struct rnic_card *card, uint32_t index)
{
    return (uint8_t *)rnic_at(card, rnic_state(card)->pbl_marks) + index;
}

/* The links are in the entry: the block before it in the upper half, the one behind it in the
 * lower, both plus 1. */
static uint32_t behind_of(const struct rnic_card *card, uint32_t index)
{
    return (uint32_t)*rnic_pbl_entry(card, index);
}
static uint32_t before_of(const struct rnic_card *card, uint32_t index)
{
    return (uint32_t)(*rnic_pbl_entry(card, index) >> 32);
}
static void link_block(const struct rnic_card *card, uint32_t index, uint32_t before, uint32_t behind)
{
    *rnic_pbl_entry(card, index) = (uint64_t)before << 32 | behind;
}

static void push_block(struct rnic_card *card, uint32_t index, unsigned order)
{
    uint32_t *first = &rnic_state(card)->pbl.first[order];
    link_block(card, index, 0, *first);
    if (*first != 0) {
        link_block(card, *first - 1, index + 1, behind_of(card, *first - 1));
    }
    *first = index + 1;
    *mark_of(card, index) = (uint8_t)(order + 1);
}

static void take_out(struct rnic_card *card, uint32_t index, unsigned order)
{
    uint32_t before = before_of(card, index);
    uint32_t behind = behind_of(card, index);
    if (before != 0) {
        link_block(card, before - 1, before_of(card, before - 1), behind);
    } else {
        rnic_state(card)->pbl.first[order] = behind;
    }
    if (behind != 0) {
        link_block(card, behind - 1, before, behind_of(card, behind - 1));
    }
    *mark_of(card, index) = 0;
}

void rnic_pbl_init(struct rnic_card *card)
{
    uint32_t entries = rnic_state(card)->config.pbl_entries;
    uint32_t at = 0;
    for (unsigned order = RNIC_PBL_ORDERS; order-- > 0;) {
        if ((entries & UINT32_C(1) << order) != 0) {
            push_block(card, at, order);
            at += UINT32_C(1) << order;
        }
    }
}

static unsigned order_for(uint32_t pages)
{
    unsigned order = 0;
    while (order < RNIC_PBL_ORDERS - 1 && (UINT32_C(1) << order) < pages) {
        order++;
    }
    return order;
}

uint32_t rnic_pbl_taken(uint32_t pages)
{
    return UINT32_C(1) << order_for(pages);
}

bool rnic_pbl_take(struct rnic_card *card, uint32_t pages, uint32_t *first)
{
    const struct rnic_state *state = rnic_state(card);
    unsigned wanted = order_for(pages);
    unsigned order = wanted;
    while (order < RNIC_PBL_ORDERS && state->pbl.first[order] == 0) {
        order++;
    }
    if (order == RNIC_PBL_ORDERS || pages > state->config.pbl_entries) {
        return false;
    }
    *first = state->pbl.first[order] - 1;
    take_out(card, *first, order);
    while (order > wanted) {
        order--;
        push_block(card, *first + (UINT32_C(1) << order), order);
    }
    return true;
}

void rnic_pbl_give(struct rnic_card *card, uint32_t first, uint32_t pages)
{
    uint32_t entries = rnic_state(card)->config.pbl_entries;
    unsigned order = order_for(pages);
    for (;;) {
        uint32_t buddy = first ^ UINT32_C(1) << order;
        if (buddy >= entries || *mark_of(card, buddy) != order + 1) {
            break;
        }
        take_out(card, buddy, order);
        first &= ~(UINT32_C(1) << order);
        order++;
    }
    push_block(card, first, order);
}
