/* SPDX-License-Identifier: MIT */
/*
 * A pool of objects of one type, whose memory is never given back to the system (type-stable
 * memory). A thread with a stale handle may still take the object's lock, and then finds that the
 * object is another one now. So the locks of an object are initialised once, when its memory is
 * allocated, and stay valid for ever.
 */
#ifndef VIPL_BASE_POOL_H
#define VIPL_BASE_POOL_H

#include <stddef.h>

#include "base/list.h"
#include "base/lock_rank.h"
#include "os/os_mutex.h"

struct vipl_pool {
    struct vipl_mutex lock; /* rank POOL; guards free, uncut and uncut_count */
    struct vipl_list free;
    char *uncut; /* the rest of the latest slab, of which no object has been taken yet */
    size_t uncut_count;
    /* in a forked child: the parent's free objects, and the rest of its slab, for leak checkers */
    struct vipl_list *left;
    char *left_uncut;
    size_t object_bytes; /* constant; a multiple of 64 */
    /* constant: a vipl_list in the object, unused while the object lives */
    size_t link_offset;
    /* constant: initialises the locks in zeroed memory, once; or NULL */
    void (*make)(void *object);
};

#define VIPL_POOL_INIT(pool, type, link, make_fn) \
    { \
        .lock = VIPL_MUTEX_INIT(VIPL_RANK_POOL), .free = {&(pool).free, &(pool).free}, \
        .object_bytes = sizeof(type), .link_offset = offsetof(type, link), .make = (make_fn), \
    }

/* Takes an object, with the contents that it had when it was put there. NULL: no memory. */
void *vipl_pool_get(struct vipl_pool *pool);
void vipl_pool_put(struct vipl_pool *pool, void *object);
/* Gives back an object that the next vipl_pool_get() is to return: for objects that keep something
 * of their own, such as a descriptor. */
void vipl_pool_put_first(struct vipl_pool *pool, void *object);
void vipl_pool_abandon(struct vipl_pool *pool); /* in a forked child: forgets all free objects */

#endif
