/* SPDX-License-Identifier: MIT */
/*
 * A queue of items of one size, which starts in memory of its owner's and takes memory of its own when that is full. The caller
 * sees to it that one thread at a time is in here.
 */
#ifndef VIPL_BASE_FIFO_H
#define VIPL_BASE_FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vipl_fifo {
    char *items;
    void *own;     /* what vipl_fifo_free() gives back; NULL: `items` is the owner's */
    uint32_t size; /* bytes of an item; constant */
    uint32_t room; /* items, a power of 2 */
    uint32_t first;
    uint32_t count;
};

/* In the array `items`, which has a power of 2 of them. */
#define VIPL_FIFO_INIT(fifo, array) \
    vipl_fifo_init(fifo, array, sizeof((array)[0]), sizeof(array) / sizeof((array)[0]))
void vipl_fifo_init(struct vipl_fifo *fifo, void *items, size_t size, size_t room);
void vipl_fifo_free(struct vipl_fifo *fifo);
/* Makes room for one more. False: there are `most` items, or there is no memory. */
bool vipl_fifo_make_room(struct vipl_fifo *fifo, uint32_t most);

/* The item so far behind the first. */
static inline void *vipl_fifo_at(const struct vipl_fifo *fifo, uint32_t i)
{
    return fifo->items + (size_t)((fifo->first + i) & (fifo->room - 1)) * fifo->size;
}

/* A new last item, to be written; there is room for it. */
static inline void *vipl_fifo_append(struct vipl_fifo *fifo)
{
    return vipl_fifo_at(fifo, fifo->count++);
}

/* The first of the items leaves. */
static inline void vipl_fifo_drop(struct vipl_fifo *fifo)
{
    fifo->first = (fifo->first + 1) & (fifo->room - 1);
    fifo->count--;
}

#endif
