/* SPDX-License-Identifier: MIT */
/*
 * Handles are not pointers: a handle holds a slot of one process-wide table and the generation of
 * the object in it. Looking one up takes no lock and two loads; what it returns is only a hint that
 * the caller confirms under the object's lock (object's own handle == the one asked for), since
 * the object may be destroyed meanwhile; its memory may not (pool.h).
 *
 * A forked child starts with an empty table and other slots: no inherited handle is found.
 */
#ifndef VIPL_BASE_HANDLE_H
#define VIPL_BASE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

enum vipl_kind { VIPL_KIND_NIC = 1, VIPL_KIND_VI, VIPL_KIND_CQ, VIPL_KIND_PTAG, VIPL_KIND_CONN, VIPL_KINDS };

/* A handle is  generation | shared bit, kind | slot. */
enum { VIPL_KIND_BITS = 4, VIPL_KIND_SHARED = 8 };
#if UINTPTR_MAX > 0xFFFFFFFFu
enum { VIPL_SLOT_BITS = 22 };
#else
enum { VIPL_SLOT_BITS = 18 };
#endif

static inline bool vipl_handle_has_shared_bit(const void *handle)
{
    return ((uintptr_t)handle >> VIPL_SLOT_BITS & VIPL_KIND_SHARED) != 0;
}
/* Whether it is of an object that the server has (src/share), which is not in this process's table. Constant in a library that
 * is built without src/share: what src/api does with shared handles is dead code there, which every compiler leaves out. */
#define vipl_handle_is_shared(handle) (VIPL_SHARING && vipl_handle_has_shared_bit(handle))

static inline enum vipl_kind vipl_handle_kind(const void *handle)
{
    return (enum vipl_kind)((uintptr_t)handle >> VIPL_SLOT_BITS & (VIPL_KIND_SHARED - 1));
}
static inline uint32_t vipl_handle_slot(const void *handle)
{
    return (uint32_t)((uintptr_t)handle & ((1u << VIPL_SLOT_BITS) - 1));
}

/* A handle for a new object, NULL if the table is full or memory is short. */
void *vipl_handle_create(enum vipl_kind kind, void *object);
void vipl_handle_destroy(void *handle);
void *vipl_handle_find(enum vipl_kind kind, const void *handle); /* NULL: not a live handle of that kind */
void vipl_handle_abandon(void);                                  /* in a forked child */

#endif
