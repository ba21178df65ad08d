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
#include <stddef.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_compiler.h"

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
void vipl_handle_abandon(void); /* in a forked child */

enum { VIPL_HANDLE_CHUNK_BITS = 10, VIPL_HANDLE_CHUNK = 1 << VIPL_HANDLE_CHUNK_BITS };

struct vipl_handle_entry {
    void *object;      /* atomic: written before stamp is released; pairs with find's acquire */
    uint32_t stamp;    /* atomic; 0 in its kind bits: free */
    int32_t next_free; /* guarded by the table's lock */
};

/* atomic: struct vipl_handle_entry[VIPL_HANDLE_CHUNK]; released once written, see handle.c */
extern void *vipl_handle_chunks[(1 << VIPL_SLOT_BITS) / VIPL_HANDLE_CHUNK];

static inline struct vipl_handle_entry *vipl_handle_entry_at(uint32_t slot)
{
    struct vipl_handle_entry *chunk =
        (struct vipl_handle_entry *)vipl_load_ptr(&vipl_handle_chunks[slot >> VIPL_HANDLE_CHUNK_BITS]);
    return chunk == NULL ? NULL : &chunk[slot & (VIPL_HANDLE_CHUNK - 1)];
}

/* NULL: not a live handle of that kind. On the path of each message, so here. */
static inline void *vipl_handle_find(enum vipl_kind kind, const void *handle)
{
    uintptr_t stamp = (uintptr_t)handle >> VIPL_SLOT_BITS;
    const struct vipl_handle_entry *e = vipl_handle_entry_at(vipl_handle_slot(handle));
    if (e == NULL || vipl_load_acquire(&e->stamp) != stamp || /* pairs with create's release */
        (stamp & ((1u << VIPL_KIND_BITS) - 1)) != (uintptr_t)kind) {
        return NULL;
    }
    void *object = vipl_load_ptr(&e->object);
    VIPL_ASSUME(object != NULL); /* it stays there when the handle ends */
    return object;
}

#endif
