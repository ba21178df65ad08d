/* SPDX-License-Identifier: MIT */
/*
 * Handles are not pointers: a handle has a slot of a process-wide table and the generation of the
 * object in that slot. A look-up takes no lock and two loads. The object that it returns may be
 * destroyed at any time, so the caller takes the object's lock and compares the object's own handle
 * with the one that was looked up. The memory of the object stays valid (pool.h).
 *
 * A forked child begins with an empty table and other slots: no inherited handle is found.
 */
#ifndef VIPL_BASE_HANDLE_H
#define VIPL_BASE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum vipl_kind {
    VIPL_KIND_NIC = 1,
    VIPL_KIND_VI,
    VIPL_KIND_CQ,
    VIPL_KIND_PTAG,
    VIPL_KIND_CONN,
    VIPL_KIND_REGISTRATION
};

/* The bits of a handle, from the highest: generation, shared bit, kind, slot. */
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
/* True if the handle is the handle of an object of the server (src/share), which is not in this
 * process's table. In a library without src/share the macro is constant, and the compiler removes
 * the code of src/api for shared handles. */
#define vipl_handle_is_shared(handle) (VIPL_SHARING && vipl_handle_has_shared_bit(handle))

static inline enum vipl_kind vipl_handle_kind(const void *handle)
{
    return (enum vipl_kind)((uintptr_t)handle >> VIPL_SLOT_BITS & (VIPL_KIND_SHARED - 1));
}
static inline uint32_t vipl_handle_slot(const void *handle)
{
    return (uint32_t)((uintptr_t)handle & ((1u << VIPL_SLOT_BITS) - 1));
}

/* Creates a handle for a new object; NULL: the table is full, or there is no memory. */
void *vipl_handle_create(enum vipl_kind kind, void *object);
void vipl_handle_destroy(void *handle);
void vipl_handle_abandon(void); /* in a forked child */

enum { VIPL_HANDLE_CHUNK_BITS = 10, VIPL_HANDLE_CHUNK = 1 << VIPL_HANDLE_CHUNK_BITS };

struct vipl_handle_entry {
    void *object;      /* atomic: written before stamp is stored with release */
    uint32_t stamp;    /* atomic; 0 in its kind bits: free */
    int32_t next_free; /* guarded by the table's lock */
};

/* atomic: pointers to struct vipl_handle_entry[VIPL_HANDLE_CHUNK], which handle.c publishes. */
extern void *vipl_handle_chunks[(1 << VIPL_SLOT_BITS) / VIPL_HANDLE_CHUNK];

static inline struct vipl_handle_entry *vipl_handle_entry_at(uint32_t slot)
{
    struct vipl_handle_entry *chunk =
        (struct vipl_handle_entry *)vipl_load_ptr(&vipl_handle_chunks[slot >> VIPL_HANDLE_CHUNK_BITS]);
    return chunk == NULL ? NULL : &chunk[slot & (VIPL_HANDLE_CHUNK - 1)];
}

/* Looks up a handle. NULL: not a live handle of that kind. Inline because it is on the path of each
 * message. */
static inline void *vipl_handle_find(enum vipl_kind kind, const void *handle)
{
    uintptr_t stamp = (uintptr_t)handle >> VIPL_SLOT_BITS;
    const struct vipl_handle_entry *e = vipl_handle_entry_at(vipl_handle_slot(handle));
    if (e == NULL || vipl_load_acquire(&e->stamp) != stamp || /* pairs with vipl_handle_create() */
        (stamp & ((1u << VIPL_KIND_BITS) - 1)) != (uintptr_t)kind) {
        return NULL;
    }
    void *object = vipl_load_ptr(&e->object);
    VIPL_ASSUME(object != NULL); /* destroying a handle does not clear the pointer */
    return object;
}

#endif
