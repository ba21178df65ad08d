/* SPDX-License-Identifier: MIT */
/* Scatter/gather lists, and copying payload between them. */
#ifndef VIPL_BASE_IOV_H
#define VIPL_BASE_IOV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"

enum { VIPL_MAX_SEGMENTS = 252 };

/* A scatter/gather list, with the sum of its lengths. */
struct vipl_sg {
    size_t bytes;
    unsigned count;
    struct vipl_iov iov[VIPL_MAX_SEGMENTS];
};

/*
 * VIPL_SAFE_COPY: from now on everything here copies through the kernel, so that memory of the program's which is not
 * there any more is a fault that the caller is told of, and not a signal. Else there are no faults. For the whole process,
 * and for good: what one NIC handle asks for cannot be taken from it by another.
 */
enum vipl_copied { VIPL_COPY_DONE, VIPL_COPY_FROM, VIPL_COPY_TO }; /* whose memory is not there */
void vipl_copy_set_safe(void);

extern uint32_t vipl_copy_safe; /* atomic, relaxed: a setting, of iov.c's */
static inline bool vipl_copy_is_safe(void)
{
    return __builtin_expect(vipl_load_relaxed(&vipl_copy_safe) != 0, 0);
}

bool vipl_copy_finds(const void *from, size_t bytes); /* whether that memory is there and may be read */
/* Likewise, as far as VIPL_SAFE_COPY asks: without it, true. */
static inline bool vipl_copy_can_read(const void *from, size_t bytes)
{
    return !vipl_copy_is_safe() || vipl_copy_finds(from, bytes);
}
bool vipl_copy_may_write(
    uint32_t *word); /* whether that word is there and may be written to; it stays what it is */
/* From one place to another, of which one is the program's. False: it is not there. */
bool vipl_copy_bytes(void *to, const void *from, size_t bytes);

/* As many bytes as both lists have. */
enum vipl_copied vipl_copy(const struct vipl_sg *to, const struct vipl_sg *from);
/* `bytes` from one place into a list, or the reverse; the list's from `offset` on. False: the list's memory is not there. */
bool vipl_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
bool vipl_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* The pieces of a list's bytes [offset, offset + bytes); returns how many, at most as many as the list has. */
unsigned vipl_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes);
/* Copies in address order, aligned items of 4 bytes (8, on 64-bit hosts) whole, the tail last: a receiver may spin on
 * the last word. Through the kernel the tail is last too, and as whole as the kernel stores 4 or 8 aligned bytes. */
enum vipl_copied vipl_copy_ordered(unsigned char *to, const struct vipl_sg *from);

#endif
