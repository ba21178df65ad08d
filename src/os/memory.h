/* SPDX-License-Identifier: MIT */
/*
 * Memory of this process: the only allocator, pieces of memory, and the hooks by which tests have
 * the system refuse.
 */
#ifndef VIPL_OS_MEMORY_H
#define VIPL_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- memory: the only allocator; tests make the Nth allocation fail --------------------------- */

/* The library does not use the C library's allocator, because a signal handler that calls the
 * library may have interrupted malloc(). This allocator has a lock of its own; a thread that holds
 * that lock is inside the library, where handlers are refused (base/guard.h). All return NULL if
 * there is no memory. */
void *vipl_alloc(size_t bytes);
void *vipl_zalloc(size_t bytes); /* zeroed */
void vipl_free(void *p);
/* Returns zeroed whole pages, which are never given back. */
void *vipl_alloc_slab(size_t bytes);
/* In a forked child: forgets the free blocks, whose state another thread of the parent may have
 * been changing. */
void vipl_alloc_abandon(void);
/* Reserves address space for zeroed pages; the system provides each page when it is first
 * touched. */
void *vipl_reserve(size_t bytes);
void vipl_unreserve(void *pages, size_t bytes); /* does nothing for NULL */
size_t vipl_page_bytes(void);

/* --- pages of the system, for the allocator alone --------------------------------------------- */

enum vipl_pages {
    VIPL_PAGES_NOW,         /* there are none if the system has no memory for all of them */
    VIPL_PAGES_WHEN_TOUCHED /* the system provides each page when it is first touched */
};
/* Returns zeroed pages, or NULL. */
void *vipl_pages_map(size_t bytes, enum vipl_pages when);
void vipl_pages_unmap(void *pages, size_t bytes);

/* --- a piece of memory ------------------------------------------------------------------------ */

struct vipl_iov {
    void *base;
    size_t len;
};

/* --- memory that may not be there ------------------------------------------------------------- */

/* Copies within this process. EFAULT, and no signal: memory is not mapped, may not be read or
 * written, or has lost its file; some bytes may have been copied. Slow, for it takes one system
 * call or more. Async-signal-safe. */
int vipl_copy_checked(void *to, const void *from, size_t bytes);

/* --- what the system may refuse: tests make the Nth such call fail ---------------------------- */

/* Asked before each system call that takes a resource. Returns true, with errno set to `error`, if
 * a test wants this call to fail: the caller then does not make it. */
bool vipl_resource_fails(int error);

/* What tests ask for; 0 asks for nothing. */
struct vipl_test_hooks {
    uint32_t alloc_countdown; /* atomic: the n-th allocation from now on fails */
    /* atomic: the n-th call from now on that makes or watches a mapping, thread, process or
     * descriptor fails */
    uint32_t resource_countdown;
    uint32_t max_sent;     /* atomic: the most bytes that one call of vipl_socket_send() moves */
    uint32_t max_received; /* atomic: the same for vipl_socket_receive() */
};
extern struct vipl_test_hooks vipl_test_hooks;

#endif
