/* SPDX-License-Identifier: MIT */
/* Accesses cut into what a bus would make of them. */
#include "adapter/function.h"

#include "adapter/adapter.h"
#include "base/little.h"

uint64_t rnic_region_bytes(const struct rnic_function *function, unsigned region)
{
    return region == VFU_REGION_BAR0       ? RNIC_BAR0_BYTES
           : region == VFU_REGION_BAR0 + 2 ? RNIC_BAR2_BYTES
           : region == VFU_REGION_BAR0 + 4 ? function->bar4.bytes
           : region == VFU_REGION_CONFIG   ? RNIC_CONFIG_BYTES
                                           : 0;
}

bool rnic_access_is_valid(const struct rnic_function *function, const struct vfu_access *access)
{
    uint64_t bytes = rnic_region_bytes(function, access->region);
    return access->bytes <= RNIC_MAX_ACCESS && access->bytes <= bytes &&
           access->offset <= bytes - access->bytes;
}

/* The largest aligned access there, up to the region's width. */
static unsigned width_at(uint64_t offset, uint32_t left, uint32_t region)
{
    unsigned width = region == VFU_REGION_CONFIG ? 4 : 8;
    while (offset % width != 0 || width > left) {
        width /= 2;
    }
    return width;
}

static uint64_t read_one(struct rnic_function *f, uint32_t region, uint64_t offset, unsigned bytes)
{
    struct rnic_card *card = &f->adapter->card;
    return region == VFU_REGION_CONFIG ? rnic_card_config_read(card, f->number, (uint32_t)offset, bytes)
                                       : rnic_card_bar_read(card, f->number, region, offset, bytes);
}

static void write_one(struct rnic_function *f, uint32_t region, uint64_t offset, unsigned bytes,
                      uint64_t value)
{
    struct rnic_card *card = &f->adapter->card;
    if (region == VFU_REGION_CONFIG) {
        rnic_card_config_write(card, f->number, (uint32_t)offset, bytes, (uint32_t)value);
    } else {
        rnic_card_bar_write(card, f->number, region, offset, bytes, value);
    }
}

void rnic_access_read(struct rnic_function *function, const struct vfu_access *access, uint8_t *out)
{
    for (uint32_t done = 0; done < access->bytes;) {
        unsigned width = width_at(access->offset + done, access->bytes - done, access->region);
        vipl_put_little(out + done, read_one(function, access->region, access->offset + done, width), width);
        done += width;
    }
}

void rnic_access_write(struct rnic_function *function, const struct vfu_access *access, const uint8_t *in)
{
    for (uint32_t done = 0; done < access->bytes;) {
        unsigned width = width_at(access->offset + done, access->bytes - done, access->region);
        write_one(function, access->region, access->offset + done, width, vipl_get_little(in + done, width));
        done += width;
    }
}
