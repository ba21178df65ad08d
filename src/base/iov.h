/* SPDX-License-Identifier: MIT */
/* Scatter/gather lists, and copying payload between them. */
#ifndef VIPL_BASE_IOV_H
#define VIPL_BASE_IOV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum {
    VIPL_MAX_SEGMENTS = 252,
    VIPL_FEW_SEGMENTS =
        8 /* that a list has room for by itself, so that it fits on the stack of a signal handler */
};

/* A scatter/gather list, with the sum of its lengths. `iov` is `few`, or longer memory of another owner: it is set before the list
 * is filled. */
struct vipl_sg {
    size_t bytes;
    unsigned count;
    struct vipl_iov *iov;
    struct vipl_iov few[VIPL_FEW_SEGMENTS];
};

/* A list of one piece. */
static inline void vipl_sg_one(struct vipl_sg *sg, void *base, size_t bytes)
{
    sg->bytes = bytes;
    sg->count = 1;
    sg->iov = sg->few;
    sg->few[0].base = base;
    sg->few[0].len = bytes;
}

/*
 * VIPL_SAFE_COPY: from now on everything here copies through the kernel. Memory of the program that is not there any
 * more is then a fault that is reported to the caller, and not a signal. Without it there are no faults. It holds
 * for the whole process and is never switched off: a NIC handle that asks for it must be able to rely on it.
 */
enum vipl_iov_result {
    VIPL_IOV_DONE,
    VIPL_IOV_FAULT_FROM,
    VIPL_IOV_FAULT_TO
}; /* whose memory is not there */
void vipl_iov_set_safe(void);

extern uint32_t vipl_iov_safe; /* atomic, relaxed: a setting, of iov.c's */
static inline bool vipl_iov_is_safe(void)
{
    return VIPL_UNLIKELY(vipl_load_relaxed(&vipl_iov_safe) != 0);
}

bool vipl_iov_finds(const void *from, size_t bytes); /* whether that memory exists and may be read */
/* Likewise, as far as VIPL_SAFE_COPY asks: without it, true. */
static inline bool vipl_iov_can_read(const void *from, size_t bytes)
{
    return !vipl_iov_is_safe() || vipl_iov_finds(from, bytes);
}
bool vipl_iov_may_write(uint32_t *word); /* whether that word exists and may be written; it is not changed */
/* From one address to another, of which one belongs to the program. False: that memory is not there. */
bool vipl_iov_bytes(void *to, const void *from, size_t bytes);

/* As many bytes as both lists have. */
enum vipl_iov_result vipl_iov_copy(const struct vipl_sg *to, const struct vipl_sg *from);
/* `bytes` from one address into a list, or the reverse; the list is used from `offset` on. False: the memory of
 * the list is not there. */
bool vipl_iov_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
bool vipl_iov_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* The same through the kernel, whether or not VIPL_SAFE_COPY is set. */
bool vipl_iov_scatter_checked(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
bool vipl_iov_gather_checked(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* The pieces of a list's bytes [offset, offset + bytes); returns how many, at most as many as the list has. */
unsigned vipl_iov_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes);
/* Copies in address order, aligned items of 4 bytes (8, on 64-bit hosts) whole, the tail last: a receiver may spin on
 * any word. Source and target may overlap; then only the bytes are promised. Through the kernel the tail is last too, and
 * as whole as the kernel stores 4 or 8 aligned bytes; the items before it are as the kernel likes. */
enum vipl_iov_result vipl_iov_ordered(unsigned char *to, const struct vipl_sg *from);
/* The same, of one piece. */
enum vipl_iov_result vipl_iov_ordered_piece(unsigned char *to, const void *from, size_t bytes);
void vipl_iov_put(unsigned char *to, const void *from,
                  size_t bytes); /* the same, of one piece, without VIPL_SAFE_COPY */
bool vipl_iov_put_checked(unsigned char *to, const void *from,
                          size_t bytes); /* through the kernel; false: that memory is not there */

#endif
