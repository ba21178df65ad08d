/* SPDX-License-Identifier: MIT */
/*
 * The allocator behind vipl_alloc(), with the hook by which tests make one allocation fail. Free
 * blocks of 32 sizes are kept in lists; new ones are cut from slabs, which are never given back.
 * All sizes are cut from the same slab, so that a process that needs few blocks touches few pages.
 * Larger blocks are mappings of their own. The allocator takes pages from the system, and has a
 * lock of its own (memory.h says why). With AddressSanitizer it is the C library's, in which the
 * sanitizer finds errors.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define CHECKED_HEAP
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define CHECKED_HEAP
#endif

static bool must_fail(void)
{
    uint32_t *countdown = &vipl_test_hooks.alloc_countdown;
    return vipl_load_relaxed(countdown) != 0 && vipl_fetch_add(countdown, (uint32_t)-1) == 1;
}

#ifdef CHECKED_HEAP

void *vipl_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes);
}

void *vipl_zalloc(size_t bytes)
{
    void *p = vipl_alloc(bytes);
    return p == NULL ? NULL : memset(p, 0, bytes);
}

void vipl_free(void *p)
{
    free(p);
}

void *vipl_alloc_slab(size_t bytes)
{
    void *p = NULL;
    if (must_fail() || posix_memalign(&p, 64, bytes) != 0) {
        return NULL;
    }
    return memset(p, 0, bytes);
}

void vipl_alloc_abandon(void)
{
    /* the C library's allocator does this at a fork */
}

#else

enum {
    SLAB = 256 * 1024,
    SMALLEST = 64,      /* bytes of the smallest block, its head included */
    STEPS = 4,          /* sizes between a power of two and the next */
    CLASSES = 8 * STEPS /* up to, not including, 16 KiB */
};
static const uint32_t MAPPED = 0xFFFFFFFFu;

/* Stands in front of each block. */
struct head {
    _Alignas(16) size_t mapped; /* bytes of the mapping of a large block */
    uint32_t size_class;        /* or MAPPED */
};

/* Links the free blocks of a size. */
struct spare {
    struct spare *next;
};

static struct {
    struct vipl_mutex lock; /* guards all */
    struct spare *free[CLASSES];
    char *uncut; /* the rest of the latest slab */
    size_t uncut_bytes;
} heap = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_HEAP)};

static size_t class_bytes(uint32_t size_class)
{
    size_t power = (size_t)SMALLEST << size_class / STEPS;
    return power + power / STEPS * (size_class % STEPS);
}

/* Returns the smallest class whose blocks have that number of bytes, or CLASSES. */
static uint32_t class_of(size_t bytes)
{
    uint32_t size_class = 0;
    while (size_class < CLASSES && class_bytes(size_class) < bytes) {
        size_class++;
    }
    return size_class;
}

static void *map_anonymous(size_t bytes)
{
    return vipl_resource_fails(ENOMEM) ? NULL : vipl_pages_map(bytes, VIPL_PAGES_NOW);
}

static void put_locked(void *block, uint32_t size_class)
{
    struct spare *spare = block;
    spare->next = heap.free[size_class];
    heap.free[size_class] = spare;
}

/* Makes free blocks of the rest of the slab, which is too short for the block that is wanted. */
static void cut_rest_locked(void)
{
    for (uint32_t size_class = CLASSES; size_class-- > 0;) {
        size_t bytes = class_bytes(size_class);
        if (heap.uncut_bytes >= bytes) {
            put_locked(heap.uncut, size_class);
            heap.uncut += bytes;
            heap.uncut_bytes -= bytes;
        }
    }
}

/* Cuts one new block from the slab, so that pages that are not needed yet stay untouched. */
static void *cut_locked(uint32_t size_class)
{
    size_t bytes = class_bytes(size_class);
    if (heap.uncut_bytes < bytes) {
        char *slab = map_anonymous(SLAB);
        if (slab == NULL) {
            return NULL;
        }
        cut_rest_locked();
        heap.uncut = slab;
        heap.uncut_bytes = SLAB;
    }
    void *block = heap.uncut;
    heap.uncut += bytes;
    heap.uncut_bytes -= bytes;
    return block;
}

static void *take_block(uint32_t size_class)
{
    vipl_mutex_lock(&heap.lock);
    struct spare *spare = heap.free[size_class];
    if (spare != NULL) {
        heap.free[size_class] = spare->next;
    }
    void *block = spare != NULL ? spare : cut_locked(size_class);
    vipl_mutex_unlock(&heap.lock);
    return block;
}

void *vipl_alloc(size_t bytes)
{
    if (must_fail() || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes += sizeof(struct head);
    uint32_t size_class = class_of(bytes);
    struct head *head = size_class < CLASSES ? take_block(size_class) : map_anonymous(bytes);
    if (head == NULL) {
        return NULL;
    }
    head->mapped = bytes;
    head->size_class = size_class < CLASSES ? size_class : MAPPED;
    return head + 1;
}

/* A mapping is zeroed when it is made, and its pages stay untouched until they are used. */
void *vipl_zalloc(size_t bytes)
{
    void *p = vipl_alloc(bytes);
    bool is_mapping = p != NULL && ((struct head *)p - 1)->size_class == MAPPED;
    return p == NULL || is_mapping ? p : memset(p, 0, bytes);
}

void vipl_free(void *p)
{
    if (p == NULL) {
        return;
    }
    struct head *head = (struct head *)p - 1;
    if (head->size_class == MAPPED) {
        vipl_pages_unmap(head, head->mapped);
        return;
    }
    uint32_t size_class = head->size_class;
    vipl_mutex_lock(&heap.lock);
    put_locked(head, size_class);
    vipl_mutex_unlock(&heap.lock);
}

void *vipl_alloc_slab(size_t bytes)
{
    return must_fail() ? NULL : map_anonymous(bytes);
}

void vipl_alloc_abandon(void)
{
    memset(&heap, 0, sizeof(heap));
    vipl_mutex_init(&heap.lock, VIPL_RANK_OS_HEAP);
}

#endif

void *vipl_reserve(size_t bytes)
{
    return must_fail() ? NULL : vipl_pages_map(bytes, VIPL_PAGES_WHEN_TOUCHED);
}

void vipl_unreserve(void *pages, size_t bytes)
{
    if (pages != NULL) {
        vipl_pages_unmap(pages, bytes);
    }
}
