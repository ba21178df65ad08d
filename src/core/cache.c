/* SPDX-License-Identifier: MIT */
/* The registration cache: look-ups, states, room. */
#include "core/cache.h"

#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/handle.h"
#include "base/intervals.h"
#include "base/log.h"
#include "core/cache_verify.h"
#include "core/mem.h"
#include "core/nic.h"
#include "os/os.h"

/* The words of the setting VIPL_CACHE. */
enum { CACHE_AUTO, CACHE_OFF, CACHE_VERIFY };

enum entry_state { REGISTERING, LIVE, DEAD };

/* A region. From the pool; live while `handle` is set. */
struct entry {
    struct vipl_interval memory; /* what is registered; constant while it is in the table */
    struct vipl_list link;       /* cache->used, ->idle or ->dead; the cache's lock; in the pool */
    void *handle;                /* of VIPL_KIND_REGISTRATION; the cache's lock */
    struct vipl_cache *cache;    /* constant while live */
    void *ptag;                  /* constant while live: the tag as the program named it, or NULL */
    struct vipl_frames *frames;  /* constant while LIVE: VIPL_CACHE=verify; else NULL */
    VIP_MEM_HANDLE region;       /* constant once LIVE or DEAD; 0: not registered */
    uint32_t users;              /* the cache's lock */
    uint8_t rights;              /* constant while live: VIPL_RIGHT_... */
    uint8_t state;               /* enum entry_state; the cache's lock */
    bool counts;                 /* among the cache's regions and bytes; the cache's lock */
};

/* From the pool: a thread that has an old NIC handle may take the lock of its cache at any time. */
struct vipl_cache {
    struct vipl_mutex lock; /* rank CACHE */
    struct vipl_list link;  /* caches; guarded by list_lock; in the pool */
    void *nic_handle;       /* whose cache it is; NULL: not live; guarded by lock */
    struct vipl_nic *nic;   /* constant while live, as the next five fields */
    bool watches;           /* memory is watched; false: nothing is cached */
    bool verifies;          /* VIPL_CACHE=verify */
    bool keeps_pages;       /* the device does, so a stale region is harmful */
    uint32_t most_regions;
    uint64_t most_bytes;
    struct vipl_intervals table; /* REGISTERING and LIVE entries; guarded by lock */
    struct vipl_list used;       /* entries with users; guarded by lock */
    struct vipl_list idle;       /* LIVE entries, least recently used first; guarded by lock */
    struct vipl_list dead;       /* DEAD entries without users; guarded by lock */
    uint64_t idle_regions;       /* guarded by lock, as the next fields */
    uint64_t idle_bytes;
    VIPX_CACHE_STATISTICS statistics;
};

/* What a call asks for. */
struct wanted {
    uintptr_t first;
    uintptr_t end;
    void *ptag;
    uint8_t rights;
};

static void make_lock(void *cache)
{
    vipl_mutex_init(&((struct vipl_cache *)cache)->lock, VIPL_RANK_CACHE);
}

static struct vipl_pool entry_pool = VIPL_POOL_INIT(entry_pool, struct entry, link, NULL);
static struct vipl_pool cache_pool = VIPL_POOL_INIT(cache_pool, struct vipl_cache, link, make_lock);
/* Held while a cache is made or ended, and the watch begins or ends with it. */
static struct vipl_mutex making_lock = VIPL_MUTEX_INIT(VIPL_RANK_CACHES);
static struct vipl_mutex list_lock = VIPL_MUTEX_INIT(VIPL_RANK_CACHE_LIST);
static struct vipl_list caches = {&caches, &caches}; /* those that watch; guarded by list_lock */

static uint64_t bytes_of(const struct entry *e)
{
    return e->memory.end - e->memory.first;
}

/* --- entries; the cache's lock is held --- */

static void start_to_count(struct vipl_cache *cache, struct entry *e)
{
    e->counts = true;
    cache->statistics.Regions++;
    cache->statistics.Bytes += bytes_of(e);
}

static void stop_to_count(struct vipl_cache *cache, struct entry *e)
{
    if (e->counts) {
        e->counts = false;
        cache->statistics.Regions--;
        cache->statistics.Bytes -= bytes_of(e);
    }
}

static void leave_idle(struct vipl_cache *cache, struct entry *e)
{
    vipl_list_remove(&e->link);
    cache->idle_regions--;
    cache->idle_bytes -= bytes_of(e);
}

/* No later look-up finds the entry. */
static void kill_entry(struct vipl_cache *cache, struct entry *e)
{
    vipl_intervals_remove(&cache->table, &e->memory);
    e->state = DEAD;
    if (e->users == 0) {
        leave_idle(cache, e);
        vipl_list_append(&cache->dead, &e->link);
    }
}

static void use_entry(struct vipl_cache *cache, struct entry *e)
{
    if (e->users++ == 0) {
        leave_idle(cache, e);
        vipl_list_append(&cache->used, &e->link);
    }
}

static void stop_using(struct vipl_cache *cache, struct entry *e)
{
    if (--e->users == 0) {
        bool is_live = e->state == LIVE;
        vipl_list_remove(&e->link);
        vipl_list_append(is_live ? &cache->idle : &cache->dead, &e->link);
        cache->idle_regions += is_live ? 1 : 0;
        cache->idle_bytes += is_live ? bytes_of(e) : 0;
    }
}

static bool return_true(struct vipl_interval *interval, void *unused)
{
    (void)interval;
    (void)unused;
    return true;
}

/* Kills all entries that have any of the addresses. Returns false if there are none. */
static bool kill_overlapping(struct vipl_cache *cache, uintptr_t first, uintptr_t end)
{
    struct vipl_interval *found;
    bool any = false;
    while ((found = vipl_intervals_overlapping(&cache->table, first, end, return_true, NULL)) != NULL) {
        struct entry *e = VIPL_CONTAINER(found, struct entry, memory);
        cache->statistics.Invalidated++;
        cache->statistics.InvalidatedInUse += e->users > 0 ? 1 : 0;
        kill_entry(cache, e);
        any = true;
    }
    return any;
}

/* --- the end of entries; no lock is held --- */

static void free_entry(struct entry *e)
{
    vipl_frames_free(e->frames);
    vipl_handle_destroy(e->handle);
    vipl_pool_put(&entry_pool, e);
}

static bool end_region(struct vipl_cache *cache, const struct entry *e)
{
    return e->region == 0 || vipl_mem_deregister(cache->nic, (void *)e->memory.first, e->region,
                                                 VIPL_REGION_OF_CACHE) == VIP_SUCCESS;
}

/* Takes the first dead entry, which no thread finds any more; NULL: there is none. */
static struct entry *take_dead(struct vipl_cache *cache)
{
    vipl_mutex_lock(&cache->lock);
    struct vipl_list *link = vipl_list_take(&cache->dead);
    vipl_mutex_unlock(&cache->lock);
    return link == NULL ? NULL : VIPL_CONTAINER(link, struct entry, link);
}

/* Ends the regions of dead entries. Those that the device does not end now stay dead, for the next
 * time. Returns true if one has ended. */
static bool end_dead(struct vipl_cache *cache)
{
    struct vipl_list refused;
    struct entry *e;
    bool any = false;
    vipl_list_init(&refused);
    while ((e = take_dead(cache)) != NULL) {
        if (end_region(cache, e)) {
            vipl_mutex_lock(&cache->lock);
            stop_to_count(cache, e);
            vipl_mutex_unlock(&cache->lock);
            free_entry(e);
            any = true;
        } else {
            vipl_list_append(&refused, &e->link);
        }
    }
    vipl_mutex_lock(&cache->lock);
    struct vipl_list *link;
    while ((link = vipl_list_take(&refused)) != NULL) {
        cache->statistics.EndsRefused++;
        vipl_list_append(&cache->dead, link);
    }
    vipl_mutex_unlock(&cache->lock);
    return any;
}

/* --- events --- */

/* Called by the watching thread. */
static void memory_is_gone(uintptr_t first, uintptr_t end)
{
    vipl_mutex_lock(&list_lock);
    for (struct vipl_list *l = caches.next; l != &caches; l = l->next) {
        struct vipl_cache *cache = VIPL_CONTAINER(l, struct vipl_cache, link);
        vipl_mutex_lock(&cache->lock);
        cache->statistics.Events++;
        kill_overlapping(cache, first, end);
        vipl_mutex_unlock(&cache->lock);
    }
    vipl_mutex_unlock(&list_lock);
}

/* --- making a cache --- */

static uint64_t default_bytes(const struct vipl_nic *nic)
{
    uint64_t bytes = vipl_memory_total() / 8;
    uint64_t lockable = vipl_memory_lock_limit() / 2;
    return nic->limits.keeps_pages && lockable < bytes ? lockable : bytes;
}

static void set_limits(struct vipl_cache *cache)
{
    struct vipl_nic *nic = cache->nic;
    uint64_t mib = vipl_config_number("VIPL_CACHE_MIB");
    uint32_t regions = vipl_config_number("VIPL_CACHE_REGIONS");
    cache->most_bytes = mib > 0 ? mib << 20 : default_bytes(nic);
    cache->most_regions = regions < nic->limits.max_regions ? regions : nic->limits.max_regions;
}

/* Why no memory is cached; NULL: memory is. Begins to watch. */
static const char *begin_watch(struct vipl_cache *cache)
{
    const struct vipl_nic *nic = cache->nic;
    if (vipl_config_word("VIPL_CACHE") == CACHE_OFF) {
        return "VIPL_CACHE=off";
    }
    if (nic->progress_mode == VIPL_PROGRESS_INLINE) {
        return "a NIC handle that makes progress inline has no thread to watch memory";
    }
    if (nic->limits.keeps_pages && !nic->limits.pages_stay) {
        return "the device has physical addresses of pages that the system may move";
    }
    int error = vipl_watch_begin(memory_is_gone);
    cache->watches = error == 0;
    return error == 0
               ? NULL
               : "the system does not let this process watch its memory (userfaultfd, /proc/self/maps)";
}

/* Sets up a cache that is not live yet. */
static void set_up(struct vipl_cache *cache, struct vipl_nic *nic)
{
    cache->nic = nic;
    cache->watches = false;
    cache->keeps_pages = nic->limits.keeps_pages;
    cache->verifies = vipl_config_word("VIPL_CACHE") == CACHE_VERIFY;
    vipl_intervals_init(&cache->table);
    vipl_list_init(&cache->used);
    vipl_list_init(&cache->idle);
    vipl_list_init(&cache->dead);
    cache->idle_regions = cache->idle_bytes = 0;
    memset(&cache->statistics, 0, sizeof(cache->statistics));
    set_limits(cache);
}

/* Makes the cache live: from now on its handle finds it. The handle is NULL, and finds nothing, if
 * the NIC handle is being closed. */
static void publish_cache(struct vipl_nic *nic, struct vipl_cache *cache)
{
    vipl_mutex_lock(&nic->lock);
    void *handle = nic->handle;
    vipl_mutex_unlock(&nic->lock);
    vipl_mutex_lock(&cache->lock);
    cache->nic_handle = handle;
    vipl_mutex_unlock(&cache->lock);
    vipl_store_ptr(&nic->cache, cache); /* pairs with cache_of() and lock_cache() */
}

/* making_lock is held. */
static struct vipl_cache *make_cache(struct vipl_nic *nic)
{
    struct vipl_cache *cache = vipl_pool_get(&cache_pool);
    if (cache == NULL) {
        return NULL;
    }
    set_up(cache, nic);
    const char *why = begin_watch(cache);
    if (why != NULL) {
        vipl_log(VIPL_LOG_INFO, "%s: registered memory is not cached: %s", nic->name, why);
    } else {
        vipl_mutex_lock(&list_lock);
        vipl_list_append(&caches, &cache->link);
        vipl_mutex_unlock(&list_lock);
    }
    publish_cache(nic, cache);
    return cache;
}

/* Returns the cache of the NIC handle, and makes it at the first call. NULL: no memory. */
static struct vipl_cache *cache_of(struct vipl_nic *nic)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache); /* pairs with make_cache() */
    if (cache == NULL) {
        vipl_mutex_lock(&making_lock);
        cache = vipl_load_ptr(&nic->cache);
        cache = cache != NULL ? cache : make_cache(nic);
        vipl_mutex_unlock(&making_lock);
    }
    return cache;
}

static void free_entries(struct vipl_list *list)
{
    struct vipl_list *link;
    while ((link = vipl_list_take(list)) != NULL) {
        free_entry(VIPL_CONTAINER(link, struct entry, link));
    }
}

void vipl_cache_end(struct vipl_nic *nic)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache);
    if (cache == NULL) {
        return;
    }
    if (cache->watches) {
        vipl_mutex_lock(&making_lock);
        vipl_mutex_lock(&list_lock);
        vipl_list_remove(&cache->link);
        vipl_mutex_unlock(&list_lock);
        vipl_watch_end();
        vipl_mutex_unlock(&making_lock);
    }
    vipl_mutex_lock(&cache->lock);
    cache->nic_handle = NULL;
    vipl_mutex_unlock(&cache->lock);
    vipl_store_ptr(&nic->cache, NULL);
    free_entries(&cache->used);
    free_entries(&cache->idle);
    free_entries(&cache->dead);
    vipl_pool_put(&cache_pool, cache);
}

void vipl_cache_abandon(void)
{
    vipl_pool_abandon(&entry_pool);
    vipl_pool_abandon(&cache_pool);
    vipl_mutex_init(&making_lock, VIPL_RANK_CACHES);
    vipl_mutex_init(&list_lock, VIPL_RANK_CACHE_LIST);
    vipl_list_init(&caches);
    vipl_watch_abandon();
}

/* --- hits --- */

/* Locks the cache at a moment when all memory that has gone is known to it. */
static void lock_when_current(struct vipl_cache *cache)
{
    vipl_mutex_lock(&cache->lock);
    if (!cache->watches || vipl_watch_is_current(cache->keeps_pages)) {
        return;
    }
    cache->statistics.Waits++;
    do { /* the watching thread needs the lock */
        vipl_mutex_unlock(&cache->lock);
        vipl_yield();
        vipl_mutex_lock(&cache->lock);
    } while (!vipl_watch_is_current(cache->keeps_pages));
}

static bool serves(struct vipl_interval *interval, void *arg)
{
    const struct entry *e = VIPL_CONTAINER(interval, struct entry, memory);
    const struct wanted *wanted = arg;
    return e->state == LIVE && e->ptag == wanted->ptag && (e->rights & wanted->rights) == wanted->rights;
}

/* Returns an entry that serves the call, with one more user; NULL: a miss. The cache's lock is
 * held, and all memory that has gone is known. */
static struct entry *take_hit(struct vipl_cache *cache, struct wanted *wanted)
{
    struct vipl_interval *found =
        vipl_intervals_containing(&cache->table, wanted->first, wanted->end, serves, wanted);
    if (found == NULL) {
        return NULL;
    }
    struct entry *e = VIPL_CONTAINER(found, struct entry, memory);
    if (cache->verifies && !vipl_frames_are(e->frames, wanted->first, wanted->end)) {
        vipl_log(VIPL_LOG_ERROR, "the registration cache found pages at %p that are not those registered",
                 (void *)wanted->first);
        cache->statistics.Stale++;
        kill_entry(cache, e);
        return NULL;
    }
    use_entry(cache, e);
    cache->statistics.Hits++;
    return e;
}

/* The same for a caller without the lock, which waits until all memory that has gone is known. */
static struct entry *find_hit(struct vipl_cache *cache, struct wanted *wanted)
{
    lock_when_current(cache);
    struct entry *e = take_hit(cache, wanted);
    vipl_mutex_unlock(&cache->lock);
    return e;
}

static struct wanted wanted_of(void *address, size_t bytes, const VIP_MEM_ATTRIBUTES *attributes)
{
    return (struct wanted){.first = (uintptr_t)address,
                           .end = (uintptr_t)address + bytes,
                           .ptag = attributes->Ptag,
                           .rights = (uint8_t)vipl_mem_rights(attributes)};
}

static bool is_registration(const struct vipl_cache *cache, const struct entry *e,
                            const VIPX_REGISTRATION *registration)
{
    return e->cache == cache && e->handle == registration->Entry && e->users > 0 &&
           e->region == registration->Handle;
}

/* --- the fast path: a hit and its release without a reference on the NIC handle --- */

/* Locks the cache of a NIC handle; NULL: the NIC handle is not live, or has none. */
static struct vipl_cache *lock_cache(void *nic_handle)
{
    const struct vipl_nic *nic = vipl_handle_find(VIPL_KIND_NIC, nic_handle);
    struct vipl_cache *cache =
        nic == NULL ? NULL : vipl_load_ptr(&nic->cache); /* pairs with publish_cache() */
    if (cache == NULL) {
        return NULL;
    }
    vipl_mutex_lock(&cache->lock);
    if (cache->nic_handle != nic_handle) {
        vipl_mutex_unlock(&cache->lock);
        return NULL;
    }
    return cache;
}

bool vipl_cache_acquire_fast(void *nic_handle, void *address, size_t bytes,
                             const VIP_MEM_ATTRIBUTES *attributes, VIPX_REGISTRATION *out)
{
    struct vipl_cache *cache = lock_cache(nic_handle);
    if (cache == NULL) {
        return false;
    }
    struct entry *e = NULL;
    if (cache->watches && vipl_watch_is_current(cache->keeps_pages)) {
        struct wanted wanted = wanted_of(address, bytes, attributes);
        e = take_hit(cache, &wanted);
    }
    if (e != NULL) {
        *out = (VIPX_REGISTRATION){.Handle = e->region, .Entry = e->handle};
    }
    vipl_mutex_unlock(&cache->lock);
    return e != NULL;
}

bool vipl_cache_release_fast(void *nic_handle, const VIPX_REGISTRATION *registration)
{
    struct entry *e = vipl_handle_find(VIPL_KIND_REGISTRATION, registration->Entry);
    struct vipl_cache *cache = e == NULL ? NULL : lock_cache(nic_handle);
    if (cache == NULL) {
        return false;
    }
    bool stays = is_registration(cache, e, registration) && e->state == LIVE && vipl_list_empty(&cache->dead);
    if (stays) {
        stop_using(cache, e);
    }
    vipl_mutex_unlock(&cache->lock);
    return stays;
}

/* --- misses --- */

/* Returns an entry with one user that is in no table. NULL: no memory. */
static struct entry *new_entry(struct vipl_cache *cache, const struct wanted *wanted)
{
    struct entry *e = vipl_pool_get(&entry_pool);
    if (e == NULL) {
        return NULL;
    }
    memset(e, 0, sizeof(*e));
    e->memory.first = wanted->first;
    e->memory.end = wanted->end;
    e->cache = cache;
    e->ptag = wanted->ptag;
    e->rights = wanted->rights;
    e->state = DEAD;
    e->users = 1;
    void *handle = vipl_handle_create(VIPL_KIND_REGISTRATION, e);
    if (handle == NULL) {
        vipl_pool_put(&entry_pool, e);
        return NULL;
    }
    vipl_mutex_lock(&cache->lock);
    e->handle = handle;
    vipl_list_append(&cache->used, &e->link);
    cache->statistics.Misses++;
    vipl_mutex_unlock(&cache->lock);
    return e;
}

/* Evicts entries until there is room for the region. Returns false, and evicts none, if regions in
 * use leave no room. */
static bool make_room_locked(struct vipl_cache *cache, uint64_t bytes)
{
    const VIPX_CACHE_STATISTICS *now = &cache->statistics;
    if (now->Regions - cache->idle_regions >= cache->most_regions ||
        now->Bytes - cache->idle_bytes > cache->most_bytes ||
        bytes > cache->most_bytes - (now->Bytes - cache->idle_bytes)) {
        return false;
    }
    uint64_t regions = now->Regions; /* which go down when the dead ones have ended */
    uint64_t used = now->Bytes;
    while (regions >= cache->most_regions || used + bytes > cache->most_bytes) {
        struct entry *e = VIPL_CONTAINER(cache->idle.next, struct entry, link);
        regions--;
        used -= bytes_of(e);
        cache->statistics.Evicted++;
        kill_entry(cache, e);
    }
    return true;
}

/* Puts an entry into the table, with whole pages if `rounds`. Returns false if there is no room. */
static bool enter_table(struct vipl_cache *cache, struct entry *e, bool rounds)
{
    uintptr_t within = (uintptr_t)vipl_page_bytes() - 1;
    struct vipl_interval asked = e->memory;
    if (rounds && asked.end <= UINTPTR_MAX - within) {
        e->memory.first = asked.first & ~within;
        e->memory.end = (asked.end + within) & ~within;
    }
    vipl_mutex_lock(&cache->lock);
    bool has_room = make_room_locked(cache, bytes_of(e));
    if (has_room) {
        e->state = REGISTERING;
        start_to_count(cache, e);
        vipl_intervals_add(&cache->table, &e->memory);
    } else {
        cache->statistics.NotCachedFull++;
        e->memory = asked;
    }
    vipl_mutex_unlock(&cache->lock);
    return has_room;
}

/* The entry's memory cannot be watched: it leaves the table, and is what was asked for. */
static void leave_table(struct vipl_cache *cache, struct entry *e, const struct wanted *wanted, int error)
{
    vipl_mutex_lock(&cache->lock);
    if (e->state != DEAD) {
        kill_entry(cache, e);
    }
    stop_to_count(cache, e);
    cache->statistics.NotCachedWatched += error == EBUSY ? 1 : 0;
    cache->statistics.NotCachedKind += error == EBUSY ? 0 : 1;
    vipl_mutex_unlock(&cache->lock);
    e->memory.first = wanted->first;
    e->memory.end = wanted->end;
}

static int watch_memory(const struct entry *e)
{
    uintptr_t within = (uintptr_t)vipl_page_bytes() - 1;
    if (e->memory.end > UINTPTR_MAX - within) {
        return EINVAL;
    }
    return vipl_watch_add(e->memory.first & ~within, (e->memory.end + within) & ~within);
}

/* Enters a new entry, which is to be cached, into the table, and watches its memory. */
static void try_to_cache(struct vipl_cache *cache, struct entry *e, const struct wanted *wanted,
                         VIP_ULONG flags)
{
    (void)end_dead(cache);
    bool rounds = wanted->rights == 0 || (flags & VIPX_WHOLE_PAGES) != 0;
    bool entered = enter_table(cache, e, rounds);
    (void)end_dead(cache); /* those that were evicted */
    int error = entered && (flags & VIPL_CACHE_STAYS) == 0 ? watch_memory(e) : 0;
    if (error != 0) {
        leave_table(cache, e, wanted, error);
    }
}

static VIP_RETURN register_entry(struct vipl_cache *cache, struct entry *e,
                                 const VIP_MEM_ATTRIBUTES *attributes)
{
    VIP_MEM_HANDLE region = 0;
    VIP_RETURN rc;
    do { /* idle regions may be what the device has no room for */
        rc = vipl_mem_register(cache->nic, (void *)e->memory.first, (size_t)bytes_of(e), attributes,
                               VIPL_REGION_OF_CACHE, &region);
    } while (rc == VIP_ERROR_RESOURCE && vipl_cache_drop_idle(cache->nic, NULL));
    struct vipl_frames *frames =
        rc == VIP_SUCCESS && cache->verifies ? vipl_frames_read(e->memory.first, e->memory.end) : NULL;
    vipl_mutex_lock(&cache->lock);
    e->region = region;
    e->frames = frames;
    if (rc != VIP_SUCCESS && e->state != DEAD) {
        kill_entry(cache, e);
    }
    e->state = e->state == REGISTERING ? LIVE : e->state;
    vipl_mutex_unlock(&cache->lock);
    return rc;
}

static void count_uncached(struct vipl_cache *cache, VIP_ULONG flags)
{
    vipl_mutex_lock(&cache->lock);
    cache->statistics.NotCachedOff += cache->watches ? 0 : 1;
    cache->statistics.NotCachedOnce += cache->watches && (flags & VIPX_ONCE) != 0 ? 1 : 0;
    vipl_mutex_unlock(&cache->lock);
}

static VIP_RETURN miss(struct vipl_cache *cache, const struct wanted *wanted,
                       const VIP_MEM_ATTRIBUTES *attributes, VIP_ULONG flags, struct entry **out)
{
    struct entry *e = new_entry(cache, wanted);
    if (e == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    if (cache->watches && (flags & VIPX_ONCE) == 0) {
        try_to_cache(cache, e, wanted, flags);
    } else {
        count_uncached(cache, flags);
    }
    VIP_RETURN rc = register_entry(cache, e, attributes);
    if (rc != VIP_SUCCESS) {
        vipl_mutex_lock(&cache->lock);
        stop_using(cache, e);
        vipl_mutex_unlock(&cache->lock);
        (void)end_dead(cache);
    }
    *out = e;
    return rc;
}

/* --- calls --- */

VIP_RETURN vipl_cache_acquire(struct vipl_nic *nic, void *address, size_t bytes,
                              const VIP_MEM_ATTRIBUTES *attributes, VIP_ULONG flags, VIPX_REGISTRATION *out)
{
    struct vipl_cache *cache = cache_of(nic);
    if (cache == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    struct wanted wanted = wanted_of(address, bytes, attributes);
    struct entry *e = cache->watches && (flags & VIPX_ONCE) == 0 ? find_hit(cache, &wanted) : NULL;
    VIP_RETURN rc = e != NULL ? VIP_SUCCESS : miss(cache, &wanted, attributes, flags, &e);
    if (rc == VIP_SUCCESS) {
        *out = (VIPX_REGISTRATION){.Handle = e->region, .Entry = e->handle};
    }
    return rc;
}

VIP_RETURN vipl_cache_release(struct vipl_nic *nic, const VIPX_REGISTRATION *registration)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache); /* pairs with make_cache() */
    struct entry *e = vipl_handle_find(VIPL_KIND_REGISTRATION, registration->Entry);
    if (cache == NULL || e == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_mutex_lock(&cache->lock);
    bool is_its = is_registration(cache, e, registration);
    if (is_its) {
        stop_using(cache, e);
    }
    bool has_dead = !vipl_list_empty(&cache->dead);
    vipl_mutex_unlock(&cache->lock);
    if (has_dead) {
        (void)end_dead(cache);
    }
    return is_its ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

void vipl_cache_forget(struct vipl_nic *nic, uintptr_t first, uintptr_t end)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache); /* pairs with make_cache() */
    if (cache != NULL) {
        vipl_mutex_lock(&cache->lock);
        kill_overlapping(cache, first, end);
        vipl_mutex_unlock(&cache->lock);
        (void)end_dead(cache);
    }
}

/* Kills the entries of one cache that have any of the addresses, and sets *nic_handle to whose
 * cache it is. Returns false if no cache has such entries. */
static bool kill_in_one(uintptr_t first, uintptr_t end, void **nic_handle)
{
    bool any = false;
    vipl_mutex_lock(&list_lock);
    for (struct vipl_list *l = caches.next; l != &caches && !any; l = l->next) {
        struct vipl_cache *cache = VIPL_CONTAINER(l, struct vipl_cache, link);
        vipl_mutex_lock(&cache->lock);
        any = kill_overlapping(cache, first, end);
        *nic_handle = cache->nic_handle;
        vipl_mutex_unlock(&cache->lock);
    }
    vipl_mutex_unlock(&list_lock);
    return any;
}

/* The lock of the list is not held while regions end, which may wait for a device. */
void vipl_cache_forget_everywhere(uintptr_t first, uintptr_t end)
{
    void *nic_handle = NULL;
    while (kill_in_one(first, end, &nic_handle)) {
        struct vipl_nic *nic = vipl_nic_get(nic_handle);
        if (nic != NULL) { /* otherwise it is closing, and ends its regions itself */
            (void)end_dead(vipl_load_ptr(&nic->cache)); /* pairs with publish_cache() */
            vipl_nic_put(nic);
        }
    }
}

bool vipl_cache_drop_idle(struct vipl_nic *nic, void *ptag)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache); /* pairs with make_cache() */
    if (cache == NULL) {
        return false;
    }
    vipl_mutex_lock(&cache->lock);
    struct vipl_list *next;
    for (struct vipl_list *l = cache->idle.next; l != &cache->idle; l = next) {
        struct entry *e = VIPL_CONTAINER(l, struct entry, link);
        next = l->next;
        if (ptag == NULL || e->ptag == ptag) {
            cache->statistics.Evicted++;
            kill_entry(cache, e);
        }
    }
    vipl_mutex_unlock(&cache->lock);
    return end_dead(cache);
}

void vipl_cache_statistics(struct vipl_nic *nic, VIPX_CACHE_STATISTICS *out)
{
    struct vipl_cache *cache = vipl_load_ptr(&nic->cache); /* pairs with make_cache() */
    memset(out, 0, sizeof(*out));
    if (cache != NULL) {
        lock_when_current(cache);
        *out = cache->statistics;
        vipl_mutex_unlock(&cache->lock);
    }
}
