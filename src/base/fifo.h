/* SPDX-License-Identifier: MIT */
/*
 * A queue of items of one size. It begins in an array of its owner, and allocates memory when the
 * array is full. The caller lets only one thread at a time use it.
 */
#ifndef VIPL_BASE_FIFO_H
#define VIPL_BASE_FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vipl_fifo {
    char *items;
    /* allocated memory, which vipl_fifo_free() frees; NULL: `items` is the owner's */
    void *own;
    uint32_t size; /* bytes of an item; constant */
    uint32_t room; /* items, a power of 2 */
    uint32_t first;
    uint32_t count;
};

/* Initialises a queue in an array, whose number of items is a power of 2. */
#define VIPL_FIFO_INIT(fifo, array) \
    vipl_fifo_init(fifo, array, sizeof((array)[0]), sizeof(array) / sizeof((array)[0]))
void vipl_fifo_init(struct vipl_fifo *fifo, void *items, size_t size, size_t room);
void vipl_fifo_free(struct vipl_fifo *fifo);
/* Makes room for one more item. False: there are `most` items already, or there is no memory. */
bool vipl_fifo_make_room(struct vipl_fifo *fifo, uint32_t most);

/* Returns the item number i, counted from the first item (0). */
static inline void *vipl_fifo_at(const struct vipl_fifo *fifo, uint32_t i)
{
    return fifo->items + (size_t)((fifo->first + i) & (fifo->room - 1)) * fifo->size;
}

/* Appends an item, which the caller writes. There is room for it. */
static inline void *vipl_fifo_append(struct vipl_fifo *fifo)
{
    return vipl_fifo_at(fifo, fifo->count++);
}

/* Removes the first item. */
static inline void vipl_fifo_drop(struct vipl_fifo *fifo)
{
    fifo->first = (fifo->first + 1) & (fifo->room - 1);
    fifo->count--;
}

#endif
