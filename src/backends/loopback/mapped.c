/* SPDX-License-Identifier: MIT */
/* The list of a peer's shared memory that this process has mapped. */
#include "backends/loopback/mapped.h"

#include "backends/loopback/link.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum { MAX_MAPPINGS = 4 }; /* a program has one segment, and a new one after its server has ended */

/* One segment of the peer. Constant once it is in the list. */
struct lo_mapped {
    struct lo_mapped *next;
    unsigned count; /* of this entry and those behind it */
    uint32_t descriptor;
    uint64_t inode;
    struct vipl_shm shm; /* base NULL: the segment cannot be mapped */
};

static struct lo_mapped *first_mapped(struct lo_link *link)
{
    return vipl_load_ptr((void **)&link->mapped); /* pairs with map_peer_memory() */
}

static struct lo_mapped *search_mapped(struct lo_mapped *mapped, const struct vipl_mappable *mappable)
{
    while (mapped != NULL &&
           (mapped->descriptor != mappable->descriptor || mapped->inode != mappable->inode)) {
        mapped = mapped->next;
    }
    return mapped;
}

/* Maps a segment and adds it to the list. NULL: the peer has published too many, or there is no
 * memory. tx is held. */
static struct lo_mapped *map_peer_memory(struct lo_link *link, const struct vipl_mappable *mappable)
{
    unsigned count = first_mapped(link) == NULL ? 0 : first_mapped(link)->count;
    struct lo_mapped *mapped = count < MAX_MAPPINGS ? vipl_zalloc(sizeof(*mapped)) : NULL;
    if (mapped == NULL) {
        return NULL;
    }
    mapped->count = count + 1;
    mapped->descriptor = mappable->descriptor;
    mapped->inode = mappable->inode;
    int error = vipl_shm_fetch(&mapped->shm, link->peer.pid, mappable);
    if (error != 0) {
        mapped->shm.base = NULL;
        vipl_log(VIPL_LOG_INFO, "shared memory of process %d is not mapped: error %d", link->peer.pid, error);
    }
    mapped->next = link->mapped;
    vipl_store_ptr((void **)&link->mapped, mapped);
    return mapped;
}

unsigned char *vipl_lo_mapped_find(struct lo_link *link, const struct vipl_mappable *mappable, size_t bytes)
{
    if (mappable->descriptor == 0) {
        return NULL;
    }
    struct lo_mapped *mapped = search_mapped(first_mapped(link), mappable);
    if (mapped == NULL) {
        vipl_biased_lock(&link->tx);
        mapped = search_mapped(link->mapped, mappable);
        mapped = mapped != NULL ? mapped : map_peer_memory(link, mappable);
        vipl_biased_unlock(&link->tx);
    }
    if (mapped == NULL || mapped->shm.base == NULL || mappable->offset > mapped->shm.bytes ||
        bytes > mapped->shm.bytes - mappable->offset) {
        return NULL;
    }
    return (unsigned char *)mapped->shm.base + mappable->offset;
}

void vipl_lo_mapped_free(struct lo_link *link)
{
    while (link->mapped != NULL) {
        struct lo_mapped *mapped = link->mapped;
        link->mapped = mapped->next;
        vipl_shm_release(&mapped->shm);
        vipl_free(mapped);
    }
}
