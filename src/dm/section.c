/* SPDX-License-Identifier: MIT */
/* Blocks of pcapng that are no packets; see section.h. They are in this machine's byte order. */
#include "dm/section.h"

#include <stdio.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/slot.h"
#include "vipl/version.h"

#define BLOCK_SECTION UINT32_C(0x0A0D0D0A)
#define BLOCK_INTERFACE 1U
#define BLOCK_STATISTICS 5U
#define ORDER_MAGIC UINT32_C(0x1A2B3C4D)
#define LINK_ETHERNET 1U
#define FILLER 19373U     /* a custom option that is not to be copied */
#define ENTERPRISE 32473U /* nobody's */
#define BLOCK_END 8U
#define HEAD_UNIT 4096U

enum {
    OPTION_COMMENT = 1,
    SECTION_APPLICATION = 4,
    INTERFACE_NAME = 2,
    INTERFACE_RESOLUTION = 9,
    STATISTICS_START = 2,
    STATISTICS_END = 3,
    STATISTICS_RECEIVED = 4,
    STATISTICS_DROPPED = 5,
    STATISTICS_DROPPED_BY_SYSTEM = 7,
    STATISTICS_KEPT = 8,
};

static uint8_t *put_option(uint8_t *to, unsigned code, const void *value, size_t bytes)
{
    size_t padded = dm_round_up(bytes, 4);

    dm_put_own16(to, (uint16_t)code);
    dm_put_own16(to + 2, (uint16_t)bytes);
    memset(to + 4, 0, padded);
    memcpy(to + 4, value, bytes);
    return to + 4 + padded;
}

static uint8_t *put_text(uint8_t *to, unsigned code, const char *text)
{
    return put_option(to, code, text, strlen(text));
}

/* Times are two numbers of 32 bits in a file, counters one of 64. */
static uint8_t *put_time(uint8_t *to, unsigned code, uint64_t time)
{
    uint32_t halves[2] = {(uint32_t)(time >> 32), (uint32_t)time};

    return put_option(to, code, halves, sizeof(halves));
}

static uint8_t *put_count(uint8_t *to, unsigned code, uint64_t count)
{
    return put_option(to, code, &count, sizeof(count));
}

/* Ends the block that begins at `block`; with `whole` not 0 it gets that number of bytes. Returns
 * what is behind the part that is written: all of it but `left` bytes, at least its end. */
static uint8_t *end_block(uint8_t *block, uint8_t *at, uint32_t whole, uint32_t left)
{
    uint32_t used = (uint32_t)(at - block);

    if (whole != 0) {
        uint32_t filler = whole - used - BLOCK_END - 4; /* of the option: enterprise and bytes */
        dm_put_own16(at, FILLER);
        dm_put_own16(at + 2, (uint16_t)filler);
        dm_put_own32(at + 4, ENTERPRISE);
        memset(at + 8, 0, whole - used - 8 - (left > BLOCK_END ? left : BLOCK_END));
        used = whole - BLOCK_END;
        at = block + used;
    }
    dm_put_own32(block + 4, used + BLOCK_END);
    if (left > 0) {
        return block + whole - left;
    }
    dm_put_own32(at, 0);
    dm_put_own32(at + 4, used + BLOCK_END);
    return at + BLOCK_END;
}

static uint8_t *put_section(uint8_t *block, uint32_t whole)
{
    char text[64];

    dm_put_own32(block, BLOCK_SECTION);
    dm_put_own32(block + 8, ORDER_MAGIC);
    dm_put_own16(block + 12, 1);
    dm_put_own16(block + 14, 0);
    memset(block + 16, 0xFF, 8); /* the length of the section is not told */
    snprintf(text, sizeof(text), "vipl-cap %d.%d.%d", VIPL_VERSION_MAJOR, VIPL_VERSION_MINOR,
             VIPL_VERSION_PATCH);
    return end_block(block, put_text(block + 24, SECTION_APPLICATION, text), whole, 0);
}

static uint8_t *put_interface(const struct dm_section *section, uint8_t *block, uint32_t whole, uint32_t left)
{
    static const uint8_t nanoseconds = 9;
    char text[160];
    uint8_t *at = block + 16;

    dm_put_own32(block, BLOCK_INTERFACE);
    dm_put_own16(block + 8, LINK_ETHERNET);
    dm_put_own16(block + 10, 0);
    dm_put_own32(block + 12, section->snaplen);
    at = put_text(at, INTERFACE_NAME, section->interface);
    at = put_option(at, INTERFACE_RESOLUTION, &nanoseconds, 1);
    snprintf(text, sizeof(text), "time stamps: %.140s", section->clock);
    at = put_text(at, OPTION_COMMENT, text);
    return end_block(block, at, whole, left);
}

uint32_t dm_section_head(const struct dm_section *section, uint32_t slot_bytes, uint8_t *to)
{
    uint32_t bytes = (uint32_t)dm_round_up(slot_bytes + 512U, HEAD_UNIT);
    uint32_t section_bytes = bytes + DM_SLOT_BLOCK - slot_bytes;
    uint8_t *interface = put_section(to, section_bytes);

    put_interface(section, interface, slot_bytes, DM_SLOT_BLOCK);
    return bytes;
}

uint32_t dm_section_statistics(const struct dm_statistics *statistics, uint8_t *to)
{
    uint8_t *at = to + 20;

    dm_put_own32(to, BLOCK_STATISTICS);
    dm_put_own32(to + 8, 0); /* the only interface */
    dm_put_own32(to + 12, (uint32_t)(statistics->last >> 32));
    dm_put_own32(to + 16, (uint32_t)statistics->last);
    if (statistics->first != 0) {
        at = put_time(at, STATISTICS_START, statistics->first);
        at = put_time(at, STATISTICS_END, statistics->last);
    }
    at = put_count(at, STATISTICS_RECEIVED, statistics->received);
    at = put_count(at, STATISTICS_DROPPED, statistics->missed);
    at = put_count(at, STATISTICS_DROPPED_BY_SYSTEM, statistics->no_slot);
    at = put_count(at, STATISTICS_KEPT, statistics->kept);
    return (uint32_t)(end_block(to, at, 0, 0) - to);
}

uint32_t dm_section_tail(const struct dm_statistics *statistics, uint32_t slot_bytes, uint8_t *to)
{
    memset(to, 0, DM_SLOT_BLOCK);
    dm_slot_prepare(to, slot_bytes);
    return DM_SLOT_BLOCK + dm_section_statistics(statistics, to + DM_SLOT_BLOCK);
}

uint32_t dm_section_compact_head(const struct dm_section *section, uint8_t *to)
{
    uint8_t *interface = put_section(to, 0);

    return (uint32_t)(put_interface(section, interface, 0, 0) - to);
}
