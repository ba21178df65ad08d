/* SPDX-License-Identifier: MIT */
/* The listen table: found by a hash of the discriminator. */
#include "devices/rnic/card/listen.h"

#include <string.h>

#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/numbers.h"
#include "iwarp/crc32c.h"

static bool is_for(const struct rnic_listen *row, const uint8_t *text, uint32_t length)
{
    return row->length == length && memcmp(row->text, text, length) == 0;
}

/* The link that leads to the function's row of a discriminator, or the empty one at the end of its
 * bucket. */
static uint32_t *link_to(const struct rnic_card *card, unsigned fn, const uint8_t *text, uint32_t length)
{
    struct rnic_state *state = rnic_state(card);
    uint32_t buckets = sizeof(state->listen_bucket) / sizeof(state->listen_bucket[0]);
    uint32_t *link = &state->listen_bucket[vipl_crc32c(0, text, length) % buckets];
    while (*link != 0) {
        struct rnic_listen *row = rnic_listen(card, *link - 1);
        if (row->fn == fn && is_for(row, text, length)) {
            break;
        }
        link = &row->behind;
    }
    return link;
}

const struct rnic_listen *rnic_listen_find(const struct rnic_card *card, const uint8_t *text, uint32_t length,
                                           const struct rnic_listen *after)
{
    const struct rnic_state *state = rnic_state(card);
    uint32_t buckets = sizeof(state->listen_bucket) / sizeof(state->listen_bucket[0]);
    uint32_t next =
        after != NULL ? after->behind : state->listen_bucket[vipl_crc32c(0, text, length) % buckets];
    while (next != 0 && !is_for(rnic_listen(card, next - 1), text, length)) {
        next = rnic_listen(card, next - 1)->behind;
    }
    return next == 0 ? NULL : rnic_listen(card, next - 1);
}

static void remove_row(struct rnic_card *card, uint32_t *link)
{
    uint32_t index = *link - 1;
    *link = rnic_listen(card, index)->behind;
    rnic_numbers_give(card, &rnic_state(card)->listens, index);
}

void rnic_listen_forget(struct rnic_card *card, unsigned fn)
{
    for (uint32_t i = 0; rnic_numbers_find(card, &rnic_state(card)->listens, fn, &i); i++) {
        const struct rnic_listen *row = rnic_listen(card, i);
        remove_row(card, link_to(card, fn, row->text, row->length));
    }
}

/* Copies the command's discriminator. */
static uint16_t read_text(struct rnic_card *card, const struct rnic_command *command, uint8_t *text,
                          uint16_t *length)
{
    *length = rnic_command16(command, RNIC_CMD_LISTEN_LENGTH);
    if (*length > RNIC_MAX_DISCRIMINATOR) {
        return RNIC_STATUS_INVALID;
    }
    uint64_t iova = rnic_command64(command, RNIC_CMD_LISTEN_ADDRESS);
    return rnic_dma_read(card, command->fn, command->object, iova, text, *length) ? RNIC_STATUS_OK
                                                                                  : RNIC_STATUS_DMA;
}

uint16_t rnic_listen_begin(struct rnic_card *card, struct rnic_command *command)
{
    struct rnic_listen new = {.object = command->object, .fn = (uint16_t)command->fn};
    uint16_t length;
    uint32_t index;
    uint16_t status = read_text(card, command, new.text, &length);
    if (status != RNIC_STATUS_OK) {
        return status;
    }
    new.length = (uint8_t)length;
    uint32_t *link = link_to(card, command->fn, new.text, length);
    if (*link != 0) {
        rnic_listen(card, *link - 1)->object = command->object;
        return RNIC_STATUS_OK;
    }
    if (!rnic_numbers_take(card, &rnic_state(card)->listens, command->fn, &index)) {
        return RNIC_STATUS_NO_ROOM;
    }
    *rnic_listen(card, index) = new;
    *link = index + 1;
    return RNIC_STATUS_OK;
}

uint16_t rnic_listen_end(struct rnic_card *card, struct rnic_command *command)
{
    uint8_t text[RNIC_MAX_DISCRIMINATOR];
    uint16_t length;
    uint16_t status = read_text(card, command, text, &length);
    if (status != RNIC_STATUS_OK) {
        return status;
    }
    uint32_t *link = link_to(card, command->fn, text, length);
    if (*link == 0) {
        return RNIC_STATUS_NO_OBJECT;
    }
    remove_row(card, link);
    return RNIC_STATUS_OK;
}
