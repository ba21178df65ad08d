/* SPDX-License-Identifier: MIT */
/* What the two sides of vfio-user tell each other about themselves: a JSON text in the first
 * message and its reply. */
#ifndef VFIO_USER_CAPABILITIES_H
#define VFIO_USER_CAPABILITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VFU_MAX_TEXT = 256 }; /* of the text that is written here, with its NUL */

struct vfu_capabilities {
    uint64_t max_fds;  /* descriptors that the sender takes with one message */
    uint64_t max_data; /* bytes of one access */
    uint64_t max_maps;
    bool write_multiple; /* REGION_WRITE_MULTI is understood */
    bool memory_file;    /* ours: VFU_DMA_MEMORY_FILE is understood */
};

extern const struct vfu_capabilities vfu_capabilities_default; /* of a side that says nothing */

/* The text of `length` bytes, with or without a NUL at its end; an empty one says nothing. False:
 * it is not JSON, or a known name has a value of the wrong kind. Unknown names are passed over. */
bool vfu_capabilities_read(const char *text, size_t length, struct vfu_capabilities *out);
/* What QEMU does not know is left out unless it is true: it would warn. Returns the bytes of the
 * text, with its NUL. */
size_t vfu_capabilities_write(char text[VFU_MAX_TEXT], const struct vfu_capabilities *capabilities);

#endif
