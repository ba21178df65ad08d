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
    /* The number of pieces for which a list itself has room; so a list fits on the stack of a
     * signal handler. */
    VIPL_FEW_SEGMENTS = 8
};

/* A scatter/gather list with the sum of its lengths. `iov` is `few`, or longer memory of another
 * owner; the caller sets `iov` before the list is filled. */
struct vipl_sg {
    size_t bytes;
    unsigned count;
    struct vipl_iov *iov;
    struct vipl_iov few[VIPL_FEW_SEGMENTS];
};

/* Makes a list of one piece. */
static inline void vipl_sg_one(struct vipl_sg *sg, void *base, size_t bytes)
{
    sg->bytes = bytes;
    sg->count = 1;
    sg->iov = sg->few;
    sg->few[0].base = base;
    sg->few[0].len = bytes;
}

/*
 * With VIPL_SAFE_COPY the functions here copy through the kernel. An access to memory that the
 * program has unmapped is then a fault, which is reported to the caller, and not a signal. Without
 * VIPL_SAFE_COPY no faults are reported. The setting holds for the whole process and is never
 * switched off, because a NIC handle that asks for it must be able to rely on it.
 */
enum vipl_iov_result {
    VIPL_IOV_DONE,
    VIPL_IOV_FAULT_FROM, /* the memory of the source does not exist */
    VIPL_IOV_FAULT_TO    /* the memory of the target does not exist */
};
void vipl_iov_set_safe(void);

extern uint32_t vipl_iov_safe; /* atomic, relaxed: the setting; in iov.c */
static inline bool vipl_iov_is_safe(void)
{
    return VIPL_UNLIKELY(vipl_load_relaxed(&vipl_iov_safe) != 0);
}

/* Returns true if the memory exists and may be read. */
bool vipl_iov_finds(const void *from, size_t bytes);
/* As vipl_iov_finds(); without VIPL_SAFE_COPY always true. */
static inline bool vipl_iov_can_read(const void *from, size_t bytes)
{
    return !vipl_iov_is_safe() || vipl_iov_finds(from, bytes);
}
/* Returns true if the word exists and may be written; does not change the word. */
bool vipl_iov_may_write(uint32_t *word);
/* Copies from one address to another; one of them belongs to the program. False: that memory does
 * not exist. */
bool vipl_iov_bytes(void *to, const void *from, size_t bytes);

/* Copies as many bytes as both lists have. */
enum vipl_iov_result vipl_iov_copy(const struct vipl_sg *to, const struct vipl_sg *from);
/* Copy `bytes` bytes from an address to a list, or from a list to an address; the list is used from
 * `offset` on. False: memory of the list does not exist. */
bool vipl_iov_scatter(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
bool vipl_iov_gather(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* As vipl_iov_scatter() and vipl_iov_gather(), always through the kernel. */
bool vipl_iov_scatter_checked(const struct vipl_sg *to, size_t offset, const void *from, size_t bytes);
bool vipl_iov_gather_checked(void *to, const struct vipl_sg *from, size_t offset, size_t bytes);
/* Lists the pieces of the bytes [offset, offset + bytes) of a list. Returns the number of pieces,
 * which is not larger than that of the list. */
unsigned vipl_iov_slice(struct vipl_iov *out, const struct vipl_sg *sg, size_t offset, size_t bytes);
/* Copies in address order, with aligned items of 4 bytes (8 on 64-bit hosts) stored whole and the
 * tail stored last: a receiver may spin on any word. Source and target may overlap; then the order
 * is not guaranteed. Through the kernel the tail is stored last too, as whole as the kernel stores
 * 4 or 8 aligned bytes; the order of the items before the tail is not guaranteed. */
enum vipl_iov_result vipl_iov_ordered(unsigned char *to, const struct vipl_sg *from);
/* As vipl_iov_ordered(), from one piece. */
enum vipl_iov_result vipl_iov_ordered_piece(unsigned char *to, const void *from, size_t bytes);
/* As vipl_iov_ordered_piece(), always without VIPL_SAFE_COPY. */
void vipl_iov_put(unsigned char *to, const void *from, size_t bytes);
/* As vipl_iov_ordered_piece(), always through the kernel. False: the memory does not exist. */
bool vipl_iov_put_checked(unsigned char *to, const void *from, size_t bytes);

#endif
