/* SPDX-License-Identifier: MIT */
/*
 * Where recordings are. A kind is a table of operations in a file of its own (store_file.c,
 * nvme/store_nvme.c). Chunks are moved by transfers, several at a time, between the store and any
 * kind of memory; what has no packets in it, headers for example, is read and written at once.
 */
#ifndef VIPL_DM_STORE_H
#define VIPL_DM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "dm/memory.h"
#include "vipl/device_memory.h"

/* Transfers that a store takes at a time. */
#define DM_MAX_TRANSFERS 64U

enum dm_direction { DM_READ, DM_WRITE };

/* What is wanted of a store. */
struct dm_store_wish {
    enum dm_direction direction;
    bool any_offset; /* of a capture: transfers begin and end anywhere, not at multiples of `align` */
    /* All transfers will be to or from this memory, which stays until the store is closed. NULL:
     * there are none. */
    const struct dm_memory *memory;
};

/* A chunk on its way. Offset and bytes are multiples of the store's `align`, the address too. */
struct dm_transfer {
    uint8_t *at;
    uint64_t offset;
    uint32_t bytes;
    uint32_t cookie; /* the caller's */
};

struct dm_transferred {
    uint32_t cookie;
    int error;      /* 0, or an errno value: EIO too if a write is short */
    uint32_t bytes; /* of a read, fewer than asked for only at the end of the store */
};

struct dm_store;

struct dm_store_kind {
    const char *name;
    bool by_kernel; /* the kernel moves chunks, and not to and from memory of every kind */
    int (*open)(const char *argument, const struct dm_store_wish *wish, struct dm_store **store,
                struct vipl_dm_reason *reason);
    void (*close)(struct dm_store *store); /* after the end of all transfers */
    /* 0; EAGAIN: too many are on their way. */
    int (*submit)(struct dm_store *store, const struct dm_transfer *transfer);
    /* Returns how many have ended; waits for one if asked to, and if one is on its way. */
    unsigned (*reap)(struct dm_store *store, struct dm_transferred *ended, unsigned room, bool wait);
    /* Main memory, at any alignment, at once. Returns the bytes, or a negative errno value. */
    int64_t (*read)(struct dm_store *store, uint64_t offset, uint8_t *to, uint32_t bytes);
    int (*write)(struct dm_store *store, uint64_t offset, const uint8_t *from, uint32_t bytes);
    /* The store is to have this length. */
    int (*truncate)(struct dm_store *store, uint64_t bytes);
    /* Removes the store of that name, one of a ring; NULL where there are no rings. */
    int (*remove)(const char *argument);
};

/* Does not change from open to close. */
struct dm_store {
    const struct dm_store_kind *kind;
    uint64_t bytes;    /* of a recording */
    uint64_t identity; /* changes when the recording is written again, as far as can be told */
    uint32_t align;
    char text[160]; /* for --explain */
};

int dm_store_open(const char *name, const struct dm_store_wish *wish, struct dm_store **store,
                  struct vipl_dm_reason *reason);
void dm_store_close(struct dm_store *store); /* does nothing for NULL */
/* The kind that `name` names, and its argument; NULL and why not. */
const struct dm_store_kind *dm_store_kind_of(const char *name, const char **argument,
                                             struct vipl_dm_reason *reason, int *error);

extern const struct dm_store_kind dm_store_file;
extern const struct dm_store_kind dm_store_nvme;

#endif
