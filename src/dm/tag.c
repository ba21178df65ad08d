/* SPDX-License-Identifier: MIT */
#include "dm/tag.h"

#include <string.h>

#define ADDRESS_BYTES 12U /* of a frame's head: the two addresses, before the tag */

void dm_tag_put_back(uint8_t *at, uint32_t room, struct dm_arrival *arrival, unsigned protocol, unsigned tci)
{
    uint32_t moved = arrival->bytes;
    uint8_t *tag = at + ADDRESS_BYTES;

    if (arrival->bytes < ADDRESS_BYTES || room < ADDRESS_BYTES + DM_TAG_BYTES) {
        return;
    }
    moved = moved > room - DM_TAG_BYTES ? room - DM_TAG_BYTES : moved;
    memmove(tag + DM_TAG_BYTES, tag, moved - ADDRESS_BYTES);
    tag[0] = (uint8_t)(protocol >> 8);
    tag[1] = (uint8_t)protocol;
    tag[2] = (uint8_t)(tci >> 8);
    tag[3] = (uint8_t)tci;
    arrival->bytes = moved + DM_TAG_BYTES;
    arrival->original += DM_TAG_BYTES;
}
