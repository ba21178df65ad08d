/* SPDX-License-Identifier: MIT */
/*
 * Which rows of a table are in use. A number is used again as late as possible, because stale ones
 * may still be about; but not so late that a table that is nearly empty takes the memory of a full
 * one.
 */
#include "devices/rnic/card/numbers.h"

static uint32_t *links(const struct rnic_card *card, const struct rnic_numbers *numbers)
{
    return rnic_at(card, numbers->links);
}
static uint16_t *owners(const struct rnic_card *card, const struct rnic_numbers *numbers)
{
    return numbers->owners == 0 ? NULL : rnic_at(card, numbers->owners);
}

static uint32_t take_freed(const struct rnic_card *card, struct rnic_numbers *numbers)
{
    uint32_t index = numbers->first - 1;
    numbers->first = links(card, numbers)[index];
    numbers->last = numbers->first == 0 ? 0 : numbers->last;
    numbers->freed--;
    return index;
}

bool rnic_numbers_take(const struct rnic_card *card, struct rnic_numbers *numbers, unsigned fn, uint32_t *out)
{
    bool fresh = numbers->fresh < numbers->limit && numbers->freed <= numbers->rest;
    if (!fresh && numbers->freed == 0) {
        return false;
    }
    *out = fresh ? numbers->fresh++ : take_freed(card, numbers);
    if (owners(card, numbers) != NULL) {
        owners(card, numbers)[*out] = (uint16_t)(fn + 1);
    }
    return true;
}

void rnic_numbers_give(const struct rnic_card *card, struct rnic_numbers *numbers, uint32_t index)
{
    links(card, numbers)[index] = 0;
    if (numbers->last != 0) {
        links(card, numbers)[numbers->last - 1] = index + 1;
    } else {
        numbers->first = index + 1;
    }
    numbers->last = index + 1;
    numbers->freed++;
    if (owners(card, numbers) != NULL) {
        owners(card, numbers)[index] = 0;
    }
}

bool rnic_numbers_owns(const struct rnic_card *card, const struct rnic_numbers *numbers, unsigned fn,
                       uint32_t index)
{
    return index < numbers->fresh && owners(card, numbers)[index] == fn + 1;
}

bool rnic_numbers_find(const struct rnic_card *card, const struct rnic_numbers *numbers, unsigned fn,
                       uint32_t *index)
{
    while (*index < numbers->fresh && !rnic_numbers_owns(card, numbers, fn, *index)) {
        ++*index;
    }
    return *index < numbers->fresh;
}
