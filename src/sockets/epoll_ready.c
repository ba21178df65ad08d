/* SPDX-License-Identifier: MIT */
/* Notifications of epoll sets: with the lock of a stream or a connection held. */
#include "sockets/epoll.h"

/* Which set the thread is driving: what it takes for that set it looks at itself. */
static _Thread_local const struct sock_epoll *driven VIPL_FAST_THREAD_LOCAL;

void sock_epoll_drive(const struct sock_epoll *set)
{
    driven = set;
}

void sock_epoll_signal_locked(struct sock_epoll *set)
{
    if (!set->is_signalled && vipl_load_acquire(&set->has_own) != 0) { /* pairs with sock_epoll_make_own() */
        set->is_signalled = true;
        vipl_waker_signal(&set->waker);
    }
}

static void wake_others_locked(struct sock_epoll *set)
{
    if (set->is_watched || (set->sleepers > 0 && driven != set)) {
        sock_epoll_signal_locked(set);
    }
}

void sock_epoll_wake_others(struct sock_epoll *set)
{
    vipl_mutex_lock(&set->ready_lock);
    wake_others_locked(set);
    vipl_mutex_unlock(&set->ready_lock);
}

void sock_epoll_mark_ready(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    vipl_mutex_lock(&set->ready_lock);
    if (vipl_list_empty(&entry->ready_link)) {
        vipl_list_append(&set->ready, &entry->ready_link);
        set->ready_count++;
    }
    wake_others_locked(set);
    vipl_mutex_unlock(&set->ready_lock);
}

void sock_epoll_mark_changed(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    vipl_mutex_lock(&set->ready_lock);
    if (vipl_list_empty(&entry->changed_link)) {
        vipl_list_append(&set->changed, &entry->changed_link);
    }
    wake_others_locked(set);
    vipl_mutex_unlock(&set->ready_lock);
}
