/* SPDX-License-Identifier: MIT */
/* What a log knows of the host's memory: the bytes that its card has read or written last. */
#ifndef RNIC_LOG_IMAGE_H
#define RNIC_LOG_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_page;
struct image {
    struct image_page **pages; /* in the order of functions and addresses, allocated */
    size_t count;
    size_t room;
};

enum image_state { IMAGE_NOTHING, IMAGE_KNOWN, IMAGE_UNREAD };

/* Puts bytes of a function's memory into the image, as what the card knows, or has not read yet.
 * Returns false if there is no memory. */
bool image_put(struct image *image, unsigned fn, uint64_t address, const void *data, uint32_t bytes,
               enum image_state state);
/* Copies those bytes to `out` that the image has in this state or a higher one, and for which
 * is_known is false, and sets their is_known. The card has read them now. */
void image_get(struct image *image, unsigned fn, uint64_t address, uint8_t *out, bool *is_known,
               uint32_t bytes, enum image_state state);
void image_end(struct image *image);

#endif
