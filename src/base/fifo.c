/* SPDX-License-Identifier: MIT */
#include "base/fifo.h"

#include <string.h>

#include "os/os.h"

void vipl_fifo_init(struct vipl_fifo *fifo, void *items, size_t size, size_t room)
{
    *fifo = (struct vipl_fifo){.items = items, .size = (uint32_t)size, .room = (uint32_t)room};
}

void vipl_fifo_free(struct vipl_fifo *fifo)
{
    vipl_free(fifo->own);
}

bool vipl_fifo_make_room(struct vipl_fifo *fifo, uint32_t most)
{
    if (fifo->count >= most) {
        return false;
    }
    if (fifo->count < fifo->room) {
        return true;
    }
    char *larger = vipl_alloc((size_t)2 * fifo->room * fifo->size);
    if (larger == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < fifo->count; i++) {
        memcpy(larger + (size_t)i * fifo->size, vipl_fifo_at(fifo, i), fifo->size);
    }
    vipl_free(fifo->own);
    fifo->items = fifo->own = larger;
    fifo->room *= 2;
    fifo->first = 0;
    return true;
}
