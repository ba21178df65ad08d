/* SPDX-License-Identifier: MIT */
/* The table is an array of pages that are made when they are needed, and never given back. Look-ups
 * take no lock; changes take the table's. */
#include "sockets/table.h"

#include <errno.h>

#include "base/lock_rank.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"

enum { PAGE_SLOTS = 512, PAGES = 8192, MOST = PAGE_SLOTS * PAGES };

struct page {
    void *slots[PAGE_SLOTS]; /* atomic: struct sock_file; written under the lock */
    uint32_t end;            /* atomic: no slot from this one on was ever used; written under the lock */
};

static void *pages[PAGES]; /* atomic: struct page; written under the lock */
/* atomic: no page from this one on was ever made; written under the lock. A process touches no more
 * of the array, which has 64 KiB, than it uses. */
static uint32_t pages_end;
static struct vipl_mutex table_lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_TABLE);

/* Returns the place of a descriptor; NULL: its page has not been made. */
static void **slot_of(int fd)
{
    if (fd < 0 || fd >= MOST) {
        return NULL;
    }
    struct page *page = vipl_load_ptr(&pages[fd / PAGE_SLOTS]);
    return page == NULL ? NULL : &page->slots[fd % PAGE_SLOTS];
}

bool sock_file_get_used(struct sock_file *file)
{
    uint32_t refs = vipl_load_relaxed(&file->refs);
    while (refs != 0) {
        if (vipl_compare_exchange(&file->refs, refs, refs + 1)) {
            return true;
        }
        refs = vipl_load_relaxed(&file->refs);
    }
    return false;
}

const struct sock_file *sock_file_peek(int fd)
{
    void **slot = slot_of(fd);
    return slot == NULL ? NULL : vipl_load_ptr(slot);
}

struct sock_file *sock_file_of(int fd)
{
    void **slot = slot_of(fd);
    struct sock_file *file = slot == NULL ? NULL : vipl_load_ptr(slot);
    while (file != NULL) {
        bool used = sock_file_get_used(file);
        struct sock_file *now = vipl_load_ptr(slot);
        if (used && now == file) {
            return file;
        }
        if (used) {
            sock_file_put(file);
        }
        file = now;
    }
    return NULL;
}

struct sock_file *sock_file_of_kind(int fd, const struct sock_file_kind *kind)
{
    struct sock_file *file = sock_file_of(fd);
    if (file != NULL && file->kind != kind) {
        sock_file_put(file);
        return NULL;
    }
    return file;
}

void sock_file_get(struct sock_file *file)
{
    vipl_fetch_add(&file->refs, 1);
}

void sock_file_put(struct sock_file *file)
{
    if (vipl_fetch_add(&file->refs, (uint32_t)-1) == 1) {
        file->kind->freed(file);
    }
}

/* Returns the place of a descriptor, and makes its page if need be. */
static int make_slot_locked(int fd, void ***slot)
{
    if (fd < 0 || fd >= MOST) {
        return EMFILE;
    }
    if (pages[fd / PAGE_SLOTS] == NULL) {
        struct page *page = vipl_alloc_slab(sizeof(*page));
        if (page == NULL) {
            return ENOMEM;
        }
        vipl_store_ptr(&pages[fd / PAGE_SLOTS], page);
        if (pages_end <= (uint32_t)(fd / PAGE_SLOTS)) {
            vipl_store_release(&pages_end, (uint32_t)(fd / PAGE_SLOTS) + 1);
        }
    }
    struct page *page = pages[fd / PAGE_SLOTS];
    *slot = &page->slots[fd % PAGE_SLOTS];
    if (page->end <= (uint32_t)(fd % PAGE_SLOTS)) {
        vipl_store_relaxed(&page->end, (uint32_t)(fd % PAGE_SLOTS) + 1);
    }
    return 0;
}

/* Puts a file, or NULL, in a place. Returns the file that was there if that was its last
 * descriptor, with the reference of its descriptors. */
static struct sock_file *replace_locked(void **slot, struct sock_file *file)
{
    struct sock_file *before = *slot;
    if (file != NULL && file->fds++ == 0) {
        sock_file_get(file);
    }
    vipl_store_ptr(slot, file);
    return before != NULL && --before->fds == 0 ? before : NULL;
}

static void end(struct sock_file *file)
{
    if (file != NULL) {
        file->kind->closed(file);
        sock_file_put(file);
    }
}

int sock_table_set(int fd, struct sock_file *file)
{
    void **slot;
    struct sock_file *last = NULL;
    vipl_mutex_lock(&table_lock);
    int error = make_slot_locked(fd, &slot);
    if (error == 0) {
        last = replace_locked(slot, file);
    }
    vipl_mutex_unlock(&table_lock);
    end(last);
    return error;
}

void sock_table_duplicate(int from, int to)
{
    struct sock_file *file = from == to ? NULL : sock_file_of(from);
    if (file != NULL) {
        if (sock_table_set(to, file) != 0) {
            sock_table_drop(to);
        }
        sock_file_put(file);
    } else if (from != to) {
        sock_table_drop(to);
    }
}

/* Finds another descriptor of the same file; -1: there is none. */
static int other_locked(const struct sock_file *file)
{
    for (int i = 0; i < (int)pages_end; i++) {
        struct page *page = pages[i];
        for (int j = 0; page != NULL && j < (int)page->end; j++) {
            if (page->slots[j] == file) {
                return i * PAGE_SLOTS + j;
            }
        }
    }
    return -1;
}

void sock_table_drop(int fd)
{
    void **slot = slot_of(fd);
    if (slot == NULL || vipl_load_ptr(slot) == NULL) {
        return;
    }
    int other = -1;
    vipl_mutex_lock(&table_lock);
    struct sock_file *file = *slot;
    struct sock_file *last = replace_locked(slot, NULL);
    if (file != NULL && last == NULL) {
        other = other_locked(file);
        sock_file_get(file);
    }
    vipl_mutex_unlock(&table_lock);
    if (file != NULL && last == NULL) {
        file->kind->moved(file, fd, other);
        sock_file_put(file);
    }
    end(last);
}

void sock_table_each(unsigned first, unsigned last, void (*each)(int fd, struct sock_file *file, void *arg),
                     void *arg)
{
    unsigned end_fd = vipl_load_acquire(&pages_end) * PAGE_SLOTS;
    for (unsigned fd = first; fd <= last && fd < end_fd; fd++) {
        struct page *page = vipl_load_ptr(&pages[fd / PAGE_SLOTS]);
        if (page == NULL || fd % PAGE_SLOTS >= vipl_load_relaxed(&page->end)) {
            fd |= PAGE_SLOTS - 1; /* the next page */
            continue;
        }
        struct sock_file *file = sock_file_of((int)fd);
        if (file != NULL) {
            each((int)fd, file, arg);
        }
    }
}

void sock_table_forked(void)
{
    vipl_mutex_init(&table_lock, VIPL_RANK_SOCK_TABLE);
}
