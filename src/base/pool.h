/* SPDX-License-Identifier: MIT */
/*
 * Objects of one type whose memory is never given back to the system. A thread that comes late with a stale handle
 * may still take the object's lock, find that it is another object now, and leave. So an object's locks are
 * initialised once, when its memory is made, and stay valid for ever.
 */
#ifndef VIPL_BASE_POOL_H
#define VIPL_BASE_POOL_H

#include <stddef.h>

#include "base/list.h"
#include "base/lock_rank.h"
#include "os/os_mutex.h"

struct vipl_pool {
    struct vipl_mutex lock; /* rank POOL; guards free */
    struct vipl_list free;
    struct vipl_list *left;     /* in a forked child: what was free in its parent, for leak checkers */
    size_t object_bytes;        /* constant; a multiple of 64 */
    size_t link_offset;         /* constant: a vipl_list in the object, unused while it lives */
    void (*make)(void *object); /* constant: prepares the locks of zeroed memory, once; NULL: it has none */
};

#define VIPL_POOL_INIT(pool, type, link, make_fn) \
    { \
        .lock = VIPL_MUTEX_INIT(VIPL_RANK_POOL), .free = {&(pool).free, &(pool).free}, \
        .object_bytes = sizeof(type), .link_offset = offsetof(type, link), .make = (make_fn), \
    }

void *vipl_pool_get(struct vipl_pool *pool); /* NULL: no memory. The contents are those of the last put. */
void vipl_pool_put(struct vipl_pool *pool, void *object);
void vipl_pool_abandon(struct vipl_pool *pool); /* in a forked child: forget everything */

#endif
