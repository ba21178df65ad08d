/* SPDX-License-Identifier: MIT */
/* The capabilities of the two sides of a vfio-user connection, which they exchange as JSON text in
 * the first message and its reply. */
#ifndef VFIO_USER_CAPABILITIES_H
#define VFIO_USER_CAPABILITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes of the text that vfu_capabilities_write() writes, with its NUL */
enum { VFU_MAX_TEXT = 256 };

struct vfu_capabilities {
    uint64_t max_fds;  /* descriptors that the sender accepts with one message */
    uint64_t max_data; /* bytes of one access */
    uint64_t max_maps;
    bool write_multiple; /* the sender understands REGION_WRITE_MULTI */
    /* an extension of this library: the sender understands VFU_DMA_MEMORY_FILE */
    bool memory_file;
};

/* The capabilities of a side that sends none. */
extern const struct vfu_capabilities vfu_capabilities_default;

/*
 * Reads `length` bytes of text, with or without a NUL at the end. An empty text means the default.
 * Unknown names are ignored. Returns false if the text is not JSON or a known name has a value of
 * the wrong kind.
 */
bool vfu_capabilities_read(const char *text, size_t length, struct vfu_capabilities *out);
/* Writes the text and returns its length, including the NUL. Names that QEMU would warn about,
 * because it does not know them, are written only if their value is true. */
size_t vfu_capabilities_write(char text[VFU_MAX_TEXT], const struct vfu_capabilities *capabilities);

#endif
