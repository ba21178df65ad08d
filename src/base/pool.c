/* SPDX-License-Identifier: MIT */
/* Pools grow by slabs, which are never freed. */
#include "base/pool.h"

#include "os/os.h"

enum { SLAB_BYTES = 65536 };

static struct vipl_list *link_of(struct vipl_pool *pool, void *object)
{
    return (struct vipl_list *)(void *)((char *)object + pool->link_offset);
}

static void grow_pool_locked(struct vipl_pool *pool)
{
    size_t count = SLAB_BYTES / pool->object_bytes;
    count = count == 0 ? 1 : count;
    char *slab = vipl_alloc_slab(count * pool->object_bytes);
    for (size_t i = 0; slab != NULL && i < count; i++) {
        void *object = slab + i * pool->object_bytes;
        if (pool->make != NULL) {
            pool->make(object);
        }
        vipl_list_append(&pool->free, link_of(pool, object));
    }
}

void *vipl_pool_get(struct vipl_pool *pool)
{
    vipl_mutex_lock(&pool->lock);
    if (vipl_list_empty(&pool->free)) {
        grow_pool_locked(pool);
    }
    struct vipl_list *link = vipl_list_take(&pool->free);
    vipl_mutex_unlock(&pool->lock);
    return link == NULL ? NULL : (char *)link - pool->link_offset;
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
    vipl_list_init(&pool->free);
}
