/* SPDX-License-Identifier: MIT */
/* Copying payload, for backends. */
#ifndef VIPL_CORE_COPY_H
#define VIPL_CORE_COPY_H

#include "core/backend.h"

/* As many bytes as both lists have. */
void vipl_copy(const struct vipl_sg *to, const struct vipl_sg *from);
/* `bytes` from one place into a list, or the reverse; the list's from `offset` on. */
void vipl_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
void vipl_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* The pieces of a list's bytes [offset, offset + bytes); returns how many, at most as many as the list has. */
unsigned vipl_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes);
/* Copies in address order, aligned items of 4 bytes (8, on 64-bit hosts) whole, the tail last: a receiver may spin on
 * the last word. */
void vipl_copy_ordered(unsigned char *to, const struct vipl_sg *from);

#endif
