/* SPDX-License-Identifier: MIT */
/* The epoll sets of the program: how they begin and end, and the library's own set in each. */
#include "sockets/epoll.h"

#include <errno.h>
#include <unistd.h>

#include "base/lock_rank.h"
#include "base/pool.h"
#include "sockets/wait.h"

static void make_set(void *object)
{
    struct sock_epoll *set = object;
    set->file.kind = &sock_epoll_kind;
    vipl_mutex_init(&set->lock, VIPL_RANK_SOCK_EPOLL);
    vipl_mutex_init(&set->ready_lock, VIPL_RANK_SOCK_READY);
}

static struct vipl_pool sets = VIPL_POOL_INIT(sets, struct sock_epoll, link, make_set);

/* All sets of the process. */
static struct vipl_mutex all_lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_READY);
static struct vipl_list all_sets = {&all_sets, &all_sets}; /* sock_epoll.link; guarded by all_lock */

uint64_t sock_epoll_key(void)
{
    static uint64_t key;
    uint64_t now = __atomic_load_n(&key, __ATOMIC_ACQUIRE);
    while (now == 0) {
        uint64_t none = 0;
        if (vipl_entropy(&now, sizeof(now)) != 0 || now == 0) {
            now = vipl_now_ns() * UINT64_C(0x9E3779B97F4A7C15) | 1;
        }
        if (!__atomic_compare_exchange_n(&key, &none, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            now = none;
        }
    }
    return now;
}

struct sock_epoll *sock_epoll_of(int fd)
{
    return (struct sock_epoll *)(void *)sock_file_of_kind(fd, &sock_epoll_kind);
}

void sock_epoll_clear(struct sock_epoll *set, int fd)
{
    vipl_store_relaxed(&set->kernel, (uint32_t)fd);
    set->generation = vipl_fork_generation();
    set->own = -1;
    set->rows = NULL;
    set->room = 0;
    set->watched = set->moved = set->has_own = set->has_members = set->series = set->looks = 0;
    set->nic = set->joins = NULL;
    set->ready_count = set->sleepers = 0;
    set->is_watched = set->is_signalled = false;
    vipl_list_init(&set->handshakes);
    vipl_list_init(&set->members);
    vipl_list_init(&set->ready);
    vipl_list_init(&set->changed);
}

static struct sock_epoll *new_set(int fd)
{
    struct sock_epoll *set = vipl_pool_get(&sets);
    if (set == NULL) {
        return NULL;
    }
    vipl_list_init(&set->link);
    sock_epoll_clear(set, fd);
    vipl_store_release(&set->file.refs, 1); /* pairs with sock_file_get_used() */
    vipl_mutex_lock(&all_lock);
    vipl_list_append(&all_sets, &set->link);
    vipl_mutex_unlock(&all_lock);
    return set;
}

void sock_epoll_created(int fd)
{
    struct sock_epoll *set = fd < 0 ? NULL : new_set(fd);
    if (set != NULL) { /* else the set is the kernel's alone, and takes no moved connections */
        (void)sock_table_set(fd, &set->file);
        sock_file_put(&set->file);
    }
}

bool sock_epoll_is_known(int fd)
{
    const struct sock_file *file = sock_file_peek(fd);
    return file != NULL && file->kind == &sock_epoll_kind;
}

struct sock_epoll *sock_epoll_next(struct sock_epoll *before)
{
    struct sock_epoll *found = NULL;
    vipl_mutex_lock(&all_lock);
    struct vipl_list *l = before == NULL ? all_sets.next : before->link.next;
    for (; found == NULL && l != &all_sets; l = l->next) {
        struct sock_epoll *set = VIPL_CONTAINER(l, struct sock_epoll, link);
        found = sock_file_get_used(&set->file) ? set : NULL;
    }
    vipl_mutex_unlock(&all_lock);
    if (before != NULL) {
        sock_file_put(&before->file);
    }
    return found;
}

/* --- the library's set --- */

int sock_epoll_make_own(struct sock_epoll *set)
{
    struct epoll_event waker = {.events = EPOLLIN, .data.u64 = 0};
    struct epoll_event own = {.events = EPOLLIN, .data.u64 = sock_epoll_key()};
    struct vipl_pollset pollset;
    if (set->own >= 0) {
        return 0;
    }
    int error = vipl_pollset_open(&pollset);
    if (error != 0) {
        return error;
    }
    error = vipl_waker_open(&set->waker);
    if (error == 0) {
        if (epoll_ctl(pollset.fd, EPOLL_CTL_ADD, set->waker.fd, &waker) != 0 ||
            epoll_ctl(sock_epoll_kernel(set), EPOLL_CTL_ADD, pollset.fd, &own) != 0) {
            error = errno;
            vipl_waker_close(&set->waker);
        }
    }
    if (error != 0) {
        vipl_pollset_close(&pollset);
        return error;
    }
    set->own = pollset.fd;
    vipl_store_release(&set->has_own, 1);
    return 0;
}

/* --- the end of a set --- */

static void set_closed(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->lock);
    if (set->generation == vipl_fork_generation()) {
        sock_entries_forget(set);
    }
    vipl_store_relaxed(&set->kernel, UINT32_MAX);
    vipl_mutex_unlock(&set->lock);
}

static void set_moved(struct sock_file *file, int fd, int other)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->lock);
    if (sock_epoll_kernel(set) == fd) {
        vipl_store_relaxed(&set->kernel, (uint32_t)other);
    }
    vipl_mutex_unlock(&set->lock);
}

static void set_freed(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    int cancel = vipl_cancel_off(); /* of any thread that has used the set */
    if (set->own >= 0 && set->generation == vipl_fork_generation()) {
        struct vipl_pollset own = {.fd = set->own};
        vipl_store_relaxed(&set->has_own, 0);
        vipl_waker_close(&set->waker);
        vipl_pollset_close(&own);
    }
    vipl_mutex_lock(&all_lock);
    vipl_list_remove(&set->link);
    vipl_mutex_unlock(&all_lock);
    vipl_pool_put(&sets, set);
    vipl_cancel_restore(cancel);
}

const struct sock_file_kind sock_epoll_kind = {set_closed, set_moved, set_freed};

/* --- fork --- */

void sock_epolls_forked(void)
{
    vipl_mutex_init(&all_lock, VIPL_RANK_SOCK_READY);
    vipl_pool_abandon(&sets);
    for (struct vipl_list *l = all_sets.next; l != &all_sets; l = l->next) {
        struct sock_epoll *set = VIPL_CONTAINER(l, struct sock_epoll, link);
        vipl_mutex_init(&set->lock, VIPL_RANK_SOCK_EPOLL);
        vipl_mutex_init(&set->ready_lock, VIPL_RANK_SOCK_READY);
    }
}
