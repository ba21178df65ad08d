/* SPDX-License-Identifier: MIT */
/*
 * Codec of the messages of vfio-user, the protocol by which one process uses a PCI device that
 * another process serves. QEMU's document "vfio-user Protocol Specification" defines the messages.
 * Numbers are little-endian on every host, so that a big-endian program under an emulator can use a
 * native server.
 *
 * The ..._read functions take the payload, which follows the header, and its length. They return
 * false if it is too short, and check nothing else.
 */
#ifndef VFIO_USER_MESSAGE_H
#define VFIO_USER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vfu_command {
    VFU_VERSION = 1,
    VFU_DMA_MAP,
    VFU_DMA_UNMAP,
    VFU_GET_INFO,
    VFU_GET_REGION_INFO,
    VFU_GET_REGION_IO_FDS,
    VFU_GET_IRQ_INFO,
    VFU_SET_IRQS,
    VFU_REGION_READ,
    VFU_REGION_WRITE,
    VFU_DMA_READ, /* the server sends this command and the next one to the client */
    VFU_DMA_WRITE,
    VFU_RESET,
    VFU_REGION_WRITE_MULTI = 15
};

/* Flags of a header. */
enum { VFU_TYPE = 0xF, VFU_REPLY = 0x1, VFU_NO_REPLY = 0x10, VFU_ERROR = 0x20 };

enum {
    VFU_HEADER_BYTES = 16,
    VFU_VERSION_BYTES = 4, /* a JSON text may follow */
    VFU_DMA_MAP_BYTES = 32,
    VFU_DMA_UNMAP_BYTES = 24,
    VFU_INFO_BYTES = 16,
    VFU_REGION_INFO_BYTES = 32,
    VFU_IRQ_INFO_BYTES = 16,
    VFU_IRQ_SET_BYTES = 20, /* booleans may follow */
    VFU_ACCESS_BYTES = 16,  /* of REGION_READ and REGION_WRITE; data may follow */
    VFU_DMA_BYTES = 16,     /* of DMA_READ and DMA_WRITE; data may follow */
    VFU_MULTI_BYTES = 8,    /* the number of accesses of 24 bytes each that follow */
    VFU_MULTI_ONE_BYTES = 24
};

enum {
    /* bytes of one access, in either direction; some peers do not finish larger accesses */
    VFU_MAX_DATA = 65536,
    VFU_MAX_BYTES = VFU_HEADER_BYTES + VFU_ACCESS_BYTES + VFU_MAX_DATA, /* of a message */
    VFU_MAX_FDS = 16                                                    /* with a message */
};

/* Numbers of regions and kinds of interrupts of a PCI device. */
enum { VFU_REGION_BAR0, VFU_REGION_BAR5 = 5, VFU_REGION_ROM, VFU_REGION_CONFIG, VFU_REGION_VGA, VFU_REGIONS };
enum { VFU_IRQ_INTX, VFU_IRQ_MSI, VFU_IRQ_MSIX, VFU_IRQ_ERROR, VFU_IRQ_REQUEST, VFU_IRQS };

enum { VFU_INFO_RESET = 1, VFU_INFO_PCI = 2 };
enum { VFU_REGION_CAN_READ = 1, VFU_REGION_CAN_WRITE = 2, VFU_REGION_CAN_MAP = 4 };
enum { VFU_IRQ_CAN_EVENTFD = 1 };
enum {
    VFU_IRQ_DATA_NONE = 0x1,
    VFU_IRQ_DATA_BOOL = 0x2,
    VFU_IRQ_DATA_EVENTFD = 0x4,
    VFU_IRQ_MASK = 0x8,
    VFU_IRQ_UNMASK = 0x10,
    VFU_IRQ_TRIGGER = 0x20
};
enum {
    VFU_DMA_READABLE = 0x1,
    VFU_DMA_WRITEABLE = 0x2,
    /* An extension of this library, used if both sides have announced it (capabilities.h): the
     * descriptor is /proc/self/mem of the client, and the offset is an address in the client. */
    VFU_DMA_MEMORY_FILE = 0x40000000
};

struct vfu_header {
    uint16_t id; /* chosen by the sender of a command; the reply repeats it */
    uint16_t command;
    uint32_t bytes; /* of the whole message */
    uint32_t flags;
    uint32_t error; /* an errno value, if VFU_ERROR is set */
};
struct vfu_version {
    uint16_t major;
    uint16_t minor;
};
struct vfu_dma_map {
    uint32_t flags;
    uint64_t offset; /* in the file that is sent with the message */
    uint64_t address;
    uint64_t bytes;
};
struct vfu_dma_unmap {
    uint32_t flags;
    uint64_t address;
    uint64_t bytes;
};
struct vfu_info {
    uint32_t flags;
    uint32_t regions;
    uint32_t irqs;
};
struct vfu_region_info {
    uint32_t argsz; /* in a request: the maximum length of the reply's payload */
    uint32_t flags;
    uint32_t index;
    uint64_t bytes;
    uint64_t offset; /* in the file that is sent with the message */
};
struct vfu_irq_info {
    uint32_t flags;
    uint32_t index;
    uint32_t count;
};
struct vfu_irq_set {
    uint32_t flags;
    uint32_t index;
    uint32_t start;
    uint32_t count;
};
struct vfu_access {
    uint64_t offset;
    uint32_t region;
    uint32_t bytes;
};
struct vfu_dma {
    uint64_t address;
    uint64_t bytes;
};

void vfu_header_write(uint8_t out[VFU_HEADER_BYTES], const struct vfu_header *header);
void vfu_header_read(const uint8_t in[VFU_HEADER_BYTES], struct vfu_header *out);

void vfu_version_write(uint8_t *out, const struct vfu_version *version);
bool vfu_version_read(const uint8_t *in, size_t bytes, struct vfu_version *out);
void vfu_dma_map_write(uint8_t *out, const struct vfu_dma_map *map);
bool vfu_dma_map_read(const uint8_t *in, size_t bytes, struct vfu_dma_map *out);
void vfu_dma_unmap_write(uint8_t *out, const struct vfu_dma_unmap *unmap);
bool vfu_dma_unmap_read(const uint8_t *in, size_t bytes, struct vfu_dma_unmap *out);
void vfu_info_write(uint8_t *out, const struct vfu_info *info);
bool vfu_info_read(const uint8_t *in, size_t bytes, struct vfu_info *out);
void vfu_region_info_write(uint8_t *out, const struct vfu_region_info *info);
bool vfu_region_info_read(const uint8_t *in, size_t bytes, struct vfu_region_info *out);
void vfu_irq_info_write(uint8_t *out, const struct vfu_irq_info *info);
bool vfu_irq_info_read(const uint8_t *in, size_t bytes, struct vfu_irq_info *out);
void vfu_irq_set_write(uint8_t *out, const struct vfu_irq_set *set);
bool vfu_irq_set_read(const uint8_t *in, size_t bytes, struct vfu_irq_set *out);
void vfu_access_write(uint8_t *out, const struct vfu_access *access);
bool vfu_access_read(const uint8_t *in, size_t bytes, struct vfu_access *out);
void vfu_dma_write(uint8_t *out, const struct vfu_dma *dma);
bool vfu_dma_read(const uint8_t *in, size_t bytes, struct vfu_dma *out);

#endif
