/* SPDX-License-Identifier: MIT */
/* Pools grow by slabs, which are never freed. */
#include "base/pool.h"

#include "os/os.h"

enum { SLAB_BYTES = 65536 };

static struct vipl_list *link_of(struct vipl_pool *pool, void *object)
{
    return (struct vipl_list *)(void *)((char *)object + pool->link_offset);
}

/* Cuts one object from the latest slab, so that pages that are not needed yet stay untouched. NULL:
 * no memory. */
static void *cut_locked(struct vipl_pool *pool)
{
    if (pool->uncut_count == 0) {
        size_t count = SLAB_BYTES / pool->object_bytes;
        count = count == 0 ? 1 : count;
        pool->uncut = vipl_alloc_slab(count * pool->object_bytes);
        pool->uncut_count = pool->uncut == NULL ? 0 : count;
    }
    if (pool->uncut_count == 0) {
        return NULL;
    }
    void *object = pool->uncut;
    pool->uncut += pool->object_bytes;
    pool->uncut_count--;
    vipl_list_init(link_of(pool, object));
    if (pool->make != NULL) {
        pool->make(object);
    }
    return object;
}

void *vipl_pool_get(struct vipl_pool *pool)
{
    vipl_mutex_lock(&pool->lock);
    struct vipl_list *link = vipl_list_take(&pool->free);
    void *object = link == NULL ? cut_locked(pool) : (char *)link - pool->link_offset;
    vipl_mutex_unlock(&pool->lock);
    return object;
}

void vipl_pool_put(struct vipl_pool *pool, void *object)
{
    vipl_mutex_lock(&pool->lock);
    vipl_list_append(&pool->free, link_of(pool, object));
    vipl_mutex_unlock(&pool->lock);
}

void vipl_pool_put_first(struct vipl_pool *pool, void *object)
{
    vipl_mutex_lock(&pool->lock);
    vipl_list_append(pool->free.next, link_of(pool, object)); /* before the first */
    vipl_mutex_unlock(&pool->lock);
}

void vipl_pool_abandon(struct vipl_pool *pool)
{
    vipl_mutex_init(&pool->lock, VIPL_RANK_POOL);
    pool->left = pool->free.next;
    pool->left_uncut = pool->uncut;
    pool->uncut_count = 0;
    vipl_list_init(&pool->free);
}
