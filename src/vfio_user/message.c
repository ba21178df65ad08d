/* SPDX-License-Identifier: MIT */
/* Fields of messages by their offsets, as the specification's tables have them. */
#include "vfio_user/message.h"

#include "base/little.h"

static void put_little32(uint8_t *to, uint32_t value)
{
    vipl_put_little(to, value, 4);
}

static void put_little64(uint8_t *to, uint64_t value)
{
    vipl_put_little(to, value, 8);
}

void vfu_header_write(uint8_t out[VFU_HEADER_BYTES], const struct vfu_header *header)
{
    vipl_put_little(out, header->id, 2);
    vipl_put_little(out + 2, header->command, 2);
    put_little32(out + 4, header->bytes);
    put_little32(out + 8, header->flags);
    put_little32(out + 12, header->error);
}

void vfu_header_read(const uint8_t in[VFU_HEADER_BYTES], struct vfu_header *out)
{
    out->id = vipl_get_little16(in);
    out->command = vipl_get_little16(in + 2);
    out->bytes = vipl_get_little32(in + 4);
    out->flags = vipl_get_little32(in + 8);
    out->error = vipl_get_little32(in + 12);
}

void vfu_version_write(uint8_t *out, const struct vfu_version *version)
{
    vipl_put_little(out, version->major, 2);
    vipl_put_little(out + 2, version->minor, 2);
}

bool vfu_version_read(const uint8_t *in, size_t bytes, struct vfu_version *out)
{
    if (bytes < VFU_VERSION_BYTES) {
        return false;
    }
    *out = (struct vfu_version){vipl_get_little16(in), vipl_get_little16(in + 2)};
    return true;
}

/* Each of these structures begins with its own size, argsz. */
void vfu_dma_map_write(uint8_t *out, const struct vfu_dma_map *map)
{
    put_little32(out, VFU_DMA_MAP_BYTES);
    put_little32(out + 4, map->flags);
    put_little64(out + 8, map->offset);
    put_little64(out + 16, map->address);
    put_little64(out + 24, map->bytes);
}

bool vfu_dma_map_read(const uint8_t *in, size_t bytes, struct vfu_dma_map *out)
{
    if (bytes < VFU_DMA_MAP_BYTES) {
        return false;
    }
    *out = (struct vfu_dma_map){vipl_get_little32(in + 4), vipl_get_little64(in + 8),
                                vipl_get_little64(in + 16), vipl_get_little64(in + 24)};
    return true;
}

void vfu_dma_unmap_write(uint8_t *out, const struct vfu_dma_unmap *unmap)
{
    put_little32(out, VFU_DMA_UNMAP_BYTES);
    put_little32(out + 4, unmap->flags);
    put_little64(out + 8, unmap->address);
    put_little64(out + 16, unmap->bytes);
}

bool vfu_dma_unmap_read(const uint8_t *in, size_t bytes, struct vfu_dma_unmap *out)
{
    if (bytes < VFU_DMA_UNMAP_BYTES) {
        return false;
    }
    *out = (struct vfu_dma_unmap){vipl_get_little32(in + 4), vipl_get_little64(in + 8),
                                  vipl_get_little64(in + 16)};
    return true;
}

void vfu_info_write(uint8_t *out, const struct vfu_info *info)
{
    put_little32(out, VFU_INFO_BYTES);
    put_little32(out + 4, info->flags);
    put_little32(out + 8, info->regions);
    put_little32(out + 12, info->irqs);
}

bool vfu_info_read(const uint8_t *in, size_t bytes, struct vfu_info *out)
{
    if (bytes < VFU_INFO_BYTES) {
        return false;
    }
    *out =
        (struct vfu_info){vipl_get_little32(in + 4), vipl_get_little32(in + 8), vipl_get_little32(in + 12)};
    return true;
}

void vfu_region_info_write(uint8_t *out, const struct vfu_region_info *info)
{
    put_little32(out, VFU_REGION_INFO_BYTES);
    put_little32(out + 4, info->flags);
    put_little32(out + 8, info->index);
    put_little32(out + 12, 0); /* no further capabilities */
    put_little64(out + 16, info->bytes);
    put_little64(out + 24, info->offset);
}

bool vfu_region_info_read(const uint8_t *in, size_t bytes, struct vfu_region_info *out)
{
    if (bytes < VFU_REGION_INFO_BYTES) {
        return false;
    }
    *out =
        (struct vfu_region_info){vipl_get_little32(in), vipl_get_little32(in + 4), vipl_get_little32(in + 8),
                                 vipl_get_little64(in + 16), vipl_get_little64(in + 24)};
    return true;
}

void vfu_irq_info_write(uint8_t *out, const struct vfu_irq_info *info)
{
    put_little32(out, VFU_IRQ_INFO_BYTES);
    put_little32(out + 4, info->flags);
    put_little32(out + 8, info->index);
    put_little32(out + 12, info->count);
}

bool vfu_irq_info_read(const uint8_t *in, size_t bytes, struct vfu_irq_info *out)
{
    if (bytes < VFU_IRQ_INFO_BYTES) {
        return false;
    }
    *out = (struct vfu_irq_info){vipl_get_little32(in + 4), vipl_get_little32(in + 8),
                                 vipl_get_little32(in + 12)};
    return true;
}

void vfu_irq_set_write(uint8_t *out, const struct vfu_irq_set *set)
{
    put_little32(out, VFU_IRQ_SET_BYTES);
    put_little32(out + 4, set->flags);
    put_little32(out + 8, set->index);
    put_little32(out + 12, set->start);
    put_little32(out + 16, set->count);
}

bool vfu_irq_set_read(const uint8_t *in, size_t bytes, struct vfu_irq_set *out)
{
    if (bytes < VFU_IRQ_SET_BYTES) {
        return false;
    }
    *out = (struct vfu_irq_set){vipl_get_little32(in + 4), vipl_get_little32(in + 8),
                                vipl_get_little32(in + 12), vipl_get_little32(in + 16)};
    return true;
}

void vfu_access_write(uint8_t *out, const struct vfu_access *access)
{
    put_little64(out, access->offset);
    put_little32(out + 8, access->region);
    put_little32(out + 12, access->bytes);
}

bool vfu_access_read(const uint8_t *in, size_t bytes, struct vfu_access *out)
{
    if (bytes < VFU_ACCESS_BYTES) {
        return false;
    }
    *out = (struct vfu_access){vipl_get_little64(in), vipl_get_little32(in + 8), vipl_get_little32(in + 12)};
    return true;
}

void vfu_dma_write(uint8_t *out, const struct vfu_dma *dma)
{
    put_little64(out, dma->address);
    put_little64(out + 8, dma->bytes);
}

bool vfu_dma_read(const uint8_t *in, size_t bytes, struct vfu_dma *out)
{
    if (bytes < VFU_DMA_BYTES) {
        return false;
    }
    *out = (struct vfu_dma){vipl_get_little64(in), vipl_get_little64(in + 8)};
    return true;
}
