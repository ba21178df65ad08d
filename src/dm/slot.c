/* SPDX-License-Identifier: MIT */
/* Slots as blocks of pcapng; see slot.h. */
#include "dm/slot.h"

#include "dm/bytes.h"

#define BLOCK_PACKET 6U
#define OPTION_FILLER 19373U /* custom, binary, not to be copied to other files */
#define ENTERPRISE 32473U    /* for documentation: nobody's (RFC 5612) */
#define FILLER_HEAD 8U       /* code, length, enterprise */
#define BLOCK_END 8U         /* opt_endofopt, and the length of the block */

uint32_t dm_slot_bytes(uint32_t snaplen)
{
    return (uint32_t)dm_round_up(DM_SLOT_HEADROOM + dm_round_up(snaplen, 4) + FILLER_HEAD, DM_SLOT_UNIT);
}

void dm_slot_prepare(uint8_t *slot, uint32_t slot_bytes)
{
    dm_put_own32(slot + DM_SLOT_END, 0);
    dm_put_own32(slot + DM_SLOT_END + 4, slot_bytes);
}

static void put_block_head(uint8_t *block, uint32_t bytes, const struct dm_arrival *arrival)
{
    dm_put_own32(block, BLOCK_PACKET);
    dm_put_own32(block + 4, bytes);
    dm_put_own32(block + 8, 0); /* the only interface */
    dm_put_own32(block + 12, (uint32_t)(arrival->time >> 32));
    dm_put_own32(block + 16, (uint32_t)arrival->time);
    dm_put_own32(block + 20, arrival->bytes);
    dm_put_own32(block + 24, arrival->original);
}

void dm_slot_fill(uint8_t *slot, uint32_t slot_bytes, const struct dm_arrival *arrival)
{
    uint32_t padded = (arrival->bytes + 3) & ~UINT32_C(3);
    uint8_t *filler = slot + DM_SLOT_HEADROOM + padded;

    put_block_head(slot + DM_SLOT_BLOCK, slot_bytes, arrival);
    dm_put_own16(filler, OPTION_FILLER);
    dm_put_own16(filler + 2, (uint16_t)(slot_bytes - DM_BLOCK_HEAD - padded - 4 - BLOCK_END));
    dm_put_own32(filler + 4, ENTERPRISE);
}

uint32_t dm_slot_compact(const uint8_t *slot, const struct dm_arrival *arrival, uint8_t *to)
{
    uint32_t padded = (arrival->bytes + 3) & ~UINT32_C(3);
    uint32_t bytes = DM_BLOCK_HEAD + padded + 4;

    memmove(to + DM_BLOCK_HEAD, slot + DM_SLOT_HEADROOM, arrival->bytes);
    memset(to + DM_BLOCK_HEAD + arrival->bytes, 0, padded - arrival->bytes);
    put_block_head(to, bytes, arrival);
    dm_put_own32(to + DM_BLOCK_HEAD + padded, bytes);
    return bytes;
}
