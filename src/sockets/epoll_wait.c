/* SPDX-License-Identifier: MIT */
/*
 * epoll_wait(). A wait looks at the entries on the ready list, and sleeps if none of them is ready.
 * An entry that is reported by its level stays on the list until a look finds it no longer ready.
 */
#include "sockets/epoll.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/deadline.h"
#include "sockets/drive.h"
#include "sockets/signals.h"
#include "sockets/wait.h"

enum {
    PROGRAM_BITS = 0x3FFF, /* of the events that epoll and poll() have alike */
    ALWAYS = EPOLLERR | EPOLLHUP,
    RECEIVES = EPOLLIN | EPOLLRDNORM | EPOLLRDHUP | EPOLLHUP | EPOLLERR,
    SENDS = EPOLLOUT | EPOLLWRNORM | EPOLLHUP | EPOLLERR,
    SERIES = 16, /* waits that may end without a look at the kernel's set */
    OWN_EVENTS = 16
};

struct epoll_waiting {
    struct sock_epoll *set;
    struct epoll_event *events;
    int most;
    const sigset_t *mask;
    int cancel;
    bool has_handshakes; /* which take more than one sleep */
    struct sock_kept_signals signals;
};

/* --- what an entry has for the program --- */

/* What the connection is ready for, of that which the program waits for. */
static uint32_t ready_in_library(struct sock_entry *entry, struct sock_conn *conn, uint32_t wanted,
                                 uint32_t *edges)
{
    if (entry->watched != NULL) { /* before the events, so that what comes later is another edge */
        uint32_t arrivals = vipl_stream_arrivals(entry->watched);
        uint32_t rooms = vipl_stream_rooms(entry->watched);
        *edges = (arrivals != entry->arrivals ? RECEIVES : 0) | (rooms != entry->rooms ? SENDS : 0);
        entry->arrivals = arrivals;
        entry->rooms = rooms;
    }
    return (uint32_t)(uint16_t)sock_conn_ready(conn) & wanted;
}

/* Brings the handshake forward. */
static uint32_t ready_in_handshake(struct sock_entry *entry, struct sock_conn *conn, uint32_t wanted,
                                   uint32_t *edges)
{
    struct sock_now now = sock_conn_advance(conn, (short)(wanted & PROGRAM_BITS));
    if (now.state == SOCK_PLAIN || now.state == SOCK_LISTENING || now.state >= SOCK_MOVED) {
        return 0; /* the entry is on the list of those that have changed */
    }
    uint32_t ready = (uint32_t)(uint16_t)now.ready & wanted;
    *edges = ready & ~entry->told;
    entry->told = ready;
    entry->nic = now.nic;
    entry->again_at = now.again_ms < 0 ? UINT64_MAX : vipl_now_ns() + (uint64_t)now.again_ms * 1000000;
    sock_entry_expect(entry, (short)(now.kernel & ~now.ready));
    return ready;
}

/* The events to report, and whether the entry stays on the ready list. */
static uint32_t look_at_entry(struct sock_entry *entry, bool *stays)
{
    struct sock_conn *conn = sock_entry_conn(entry);
    uint32_t edges = 0;
    *stays = false;
    if (entry->place == SOCK_IN_KERNEL || entry->place == SOCK_DISARMED || conn == NULL) {
        return 0;
    }
    uint32_t wanted = (entry->events & PROGRAM_BITS) | ALWAYS;
    uint32_t ready = entry->place == SOCK_IN_LIBRARY ? ready_in_library(entry, conn, wanted, &edges)
                                                     : ready_in_handshake(entry, conn, wanted, &edges);
    bool by_edge = (entry->events & EPOLLET) != 0;
    if (entry->disarmed || ready == 0 || (by_edge && !entry->fresh && (edges & ready) == 0)) {
        return 0;
    }
    *stays = !by_edge;
    return ready;
}

static void reported(struct sock_entry *entry, bool *stays)
{
    entry->fresh = false;
    if ((entry->events & EPOLLONESHOT) != 0) {
        entry->disarmed = true;
        *stays = false;
    }
}

/* --- the ready list --- */

/* Takes the first entry of the list, if this look has not come to it yet; else NULL. An entry that
 * stays is put behind all others, and others may come and go meanwhile. */
static struct sock_entry *take_unseen(struct sock_epoll *set)
{
    vipl_mutex_lock(&set->ready_lock);
    struct vipl_list *link = set->ready.next;
    struct sock_entry *entry = VIPL_CONTAINER(link, struct sock_entry, ready_link);
    bool is_unseen = link != &set->ready && entry->looked_by != set->looks;
    if (is_unseen) {
        vipl_list_remove(link);
        set->ready_count--;
        entry->looked_by = set->looks;
    }
    vipl_mutex_unlock(&set->ready_lock);
    return is_unseen ? entry : NULL;
}

/* Puts an entry back, unless it has news already. */
static void keep_ready(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    vipl_mutex_lock(&set->ready_lock);
    if (vipl_list_empty(&entry->ready_link)) {
        vipl_list_append(&set->ready, &entry->ready_link);
        set->ready_count++;
    }
    vipl_mutex_unlock(&set->ready_lock);
}

static unsigned count_ready(struct sock_epoll *set)
{
    vipl_mutex_lock(&set->ready_lock);
    unsigned count = set->ready_count;
    vipl_mutex_unlock(&set->ready_lock);
    return count;
}

/* Puts the handshakes whose time has come on the ready list, and notes a device that connects a VI.
 * Returns the milliseconds until the next one; -1: there is none. */
static int time_handshakes(struct sock_epoll *set)
{
    uint64_t next = UINT64_MAX;
    struct vipl_stream_nic *joins = NULL;
    uint64_t now = vipl_list_empty(&set->handshakes) ? 0 : vipl_now_ns();
    for (struct vipl_list *l = set->handshakes.next; l != &set->handshakes; l = l->next) {
        struct sock_entry *entry = VIPL_CONTAINER(l, struct sock_entry, member_link);
        joins = entry->nic != NULL ? entry->nic : joins;
        if (entry->again_at <= now) {
            entry->again_at = UINT64_MAX;
            keep_ready(entry);
        } else {
            next = entry->again_at < next ? entry->again_at : next;
        }
    }
    vipl_store_ptr(&set->joins, joins); /* pairs with nic_of() */
    return vipl_ms_left(next);
}

/* Threads that sleep for the same set have to look at what is left; so have those that watch the
 * set by the kernel. */
static void tell_others(struct sock_epoll *set, unsigned own_sleeps)
{
    vipl_mutex_lock(&set->ready_lock);
    if (!vipl_list_empty(&set->ready) && (set->is_watched || set->sleepers > own_sleeps)) {
        sock_epoll_signal_locked(set);
    }
    vipl_mutex_unlock(&set->ready_lock);
}

/* Reports what the library has ready, at most `most`. */
static int collect(struct epoll_waiting *waiting, struct epoll_event *events, int most, int *again_ms)
{
    struct sock_epoll *set = waiting->set;
    int count = 0;
    vipl_mutex_lock(&set->lock);
    sock_epoll_sweep_locked(set);
    time_handshakes(set);
    set->looks++;
    for (struct sock_entry *entry; count < most && (entry = take_unseen(set)) != NULL;) {
        bool stays;
        uint32_t ready = look_at_entry(entry, &stays);
        if (ready != 0) {
            events[count].events = ready;
            events[count++].data = entry->data;
            reported(entry, &stays);
            if (stays) {
                keep_ready(entry);
            }
        }
        sock_epoll_sweep_locked(set); /* a handshake may be over; its entry is at the end of the list */
    }
    *again_ms = time_handshakes(set);
    waiting->has_handshakes = !vipl_list_empty(&set->handshakes);
    tell_others(set, 1);
    vipl_mutex_unlock(&set->lock);
    return count;
}

/* --- the kernel's sets --- */

int sock_epoll_strip(struct epoll_event *events, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 != sock_epoll_key()) {
            events[left++] = events[i];
        }
    }
    return left;
}

/* Takes what the library's set has found. */
static void take_own(struct sock_epoll *set)
{
    struct epoll_event events[OWN_EVENTS];
    vipl_mutex_lock(&set->lock);
    int count = epoll_wait(set->own, events, OWN_EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct sock_entry *entry = sock_entry_of_key(set, events[i].data.u64);
        if (events[i].data.u64 == 0) {
            vipl_mutex_lock(&set->ready_lock);
            set->is_signalled = false;
            vipl_waker_reset(&set->waker);
            vipl_mutex_unlock(&set->ready_lock);
        } else if (entry != NULL && entry->place == SOCK_IN_HANDSHAKE) {
            entry->again_at = 0;
        }
    }
    vipl_mutex_unlock(&set->lock);
}

/* Reports what the kernel has found, and takes what is for the library. *own: there was such. */
static int take_kernels(struct sock_epoll *set, struct epoll_event *events, int count, bool *own)
{
    int left = sock_epoll_strip(events, count);
    *own = left < count;
    if (*own) {
        take_own(set);
    }
    return left;
}

/* --- sets in sets --- */

/* The nth member set, with a reference; NULL: there are fewer. */
static struct sock_file *member_of(struct sock_epoll *set, unsigned n)
{
    struct sock_file *found = NULL;
    vipl_mutex_lock(&set->lock);
    for (struct vipl_list *l = set->members.next; found == NULL && l != &set->members; l = l->next) {
        struct sock_entry *entry = VIPL_CONTAINER(l, struct sock_entry, member_link);
        if (n-- == 0) {
            found = entry->file;
            sock_file_get(found);
        }
    }
    vipl_mutex_unlock(&set->lock);
    return found;
}

/* A thread drives one device; a second one gets a thread of its own. */
static struct vipl_stream_nic *either(struct vipl_stream_nic *one, struct vipl_stream_nic *other)
{
    if (one != NULL && other != NULL && one != other) {
        sock_drive(other);
    }
    return one != NULL ? one : other;
}

/* The device that a thread drives which waits for the set's own entries; NULL: none is moved, or
 * about to be. */
static struct vipl_stream_nic *nic_of(struct sock_epoll *set)
{
    return vipl_load_relaxed(&set->moved) != 0 ? vipl_load_ptr(&set->nic)    /* pairs with enter_library() */
                                               : vipl_load_ptr(&set->joins); /* and time_handshakes() */
}

static struct vipl_stream_nic *trim_members(struct sock_epoll *set)
{
    struct vipl_stream_nic *nic = NULL;
    struct sock_file *member;
    if (vipl_load_relaxed(&set->has_members) == 0) {
        return NULL;
    }
    for (unsigned n = 0; (member = member_of(set, n)) != NULL; n++) {
        nic = either(nic, sock_epoll_trim(member));
        sock_file_put(member);
    }
    return nic;
}

/* Drops entries that are not ready, up to the first one that is. */
static void trim_locked(struct sock_epoll *set)
{
    sock_epoll_sweep_locked(set);
    time_handshakes(set);
    bool found = false;
    set->looks++;
    for (struct sock_entry *entry; !found && (entry = take_unseen(set)) != NULL;) {
        bool stays;
        found = look_at_entry(entry, &stays) != 0;
        if (found) {
            entry->fresh = true; /* the edge is not reported yet */
            keep_ready(entry);
        }
        sock_epoll_sweep_locked(set);
    }
}

struct vipl_stream_nic *sock_epoll_trim(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    struct vipl_stream_nic *nic = trim_members(set);
    if (vipl_load_acquire(&set->has_own) == 0) {
        return nic;
    }
    struct vipl_stream_nic *own = nic_of(set);
    if (own != NULL) {
        vipl_stream_nic_progress(own);
        nic = either(own, nic);
    }
    take_own(set);
    vipl_mutex_lock(&set->lock);
    trim_locked(set);
    vipl_mutex_lock(&set->ready_lock);
    if (!vipl_list_empty(&set->ready)) {
        sock_epoll_signal_locked(set);
    }
    vipl_mutex_unlock(&set->ready_lock);
    vipl_mutex_unlock(&set->lock);
    return nic;
}

void sock_epoll_begin_sleep(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->ready_lock);
    set->sleepers++;
    vipl_mutex_unlock(&set->ready_lock);
}

void sock_epoll_end_sleep(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->ready_lock);
    set->sleepers--;
    vipl_mutex_unlock(&set->ready_lock);
}

/* --- waiting --- */

static void end_epoll_wait(void *arg)
{
    struct epoll_waiting *waiting = arg;
    sock_signals_let_in(&waiting->signals);
    sock_epoll_drive(NULL);
    sock_epoll_end_sleep(&waiting->set->file);
    sock_file_put(&waiting->set->file);
}

/* Looks at the kernel's set, and waits for it if no connection is moved. Returns the events, also
 * those of the library's set; or -1. */
static int ask_kernel(struct epoll_waiting *waiting, int ms)
{
    vipl_cancel_restore(waiting->cancel);
    int count = epoll_pwait(sock_epoll_kernel(waiting->set), waiting->events, waiting->most, ms,
                            sock_signals_mask(&waiting->signals, waiting->mask));
    vipl_cancel_off();
    return count;
}

/* Sleeps for the device and the kernel's set. Returns 0, and whether the kernel's set has ended the
 * sleep; or -1. */
static int sleep_for_device(struct epoll_waiting *waiting, struct vipl_stream_nic *nic, int ms, bool *kernels)
{
    struct pollfd fd = {.fd = sock_epoll_kernel(waiting->set), .events = POLLIN};
    vipl_cancel_restore(waiting->cancel);
    int rc = sock_sleep(nic, &fd, 1, ms, sock_signals_mask(&waiting->signals, waiting->mask));
    vipl_cancel_off();
    *kernels = rc == VIPL_POLL_OTHERS;
    sock_handshakes_look();
    if (rc == 0 || rc == VIPL_POLL_OTHERS || rc == ETIMEDOUT) {
        return 0;
    }
    errno = rc;
    return -1;
}

static int shorter(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

/* Asks the kernel, and then the library for what the kernel's set has not had room for. Returns the
 * events, or -1. */
static int look_at_kernels_set(struct epoll_waiting *waiting, int ms)
{
    bool own = false;
    int again_ms;
    int count = ask_kernel(waiting, ms);
    if (count < 0) {
        return -1;
    }
    count = take_kernels(waiting->set, waiting->events, count, &own);
    if (own && count < waiting->most) {
        count += collect(waiting, waiting->events + count, waiting->most - count, &again_ms);
    }
    return count;
}

/* After a series of waits that the library has answered, the kernel's set comes first once: neither
 * keeps the other from being reported, however few events a wait may return. */
static bool is_kernels_turn(struct sock_epoll *set)
{
    bool its_turn = vipl_fetch_add(&set->series, 1) >= SERIES;
    if (its_turn) {
        vipl_store_relaxed(&set->series, 0);
    }
    return its_turn;
}

/* One look at everything; sleeps for at most `ms` first if the library has nothing. Returns the
 * events, 0 if there are none, or -1. */
static int look_once(struct epoll_waiting *waiting, int ms)
{
    struct sock_epoll *set = waiting->set;
    struct vipl_stream_nic *nic = trim_members(set);
    int again_ms = -1;
    int count = 0;
    if (vipl_load_acquire(&set->watched) != 0) { /* pairs with add_conn() */
        struct vipl_stream_nic *own_nic = nic_of(set);
        if (own_nic != NULL) {
            vipl_stream_nic_progress(own_nic);
            count = is_kernels_turn(set) ? look_at_kernels_set(waiting, 0) : 0;
        }
        if (count == 0) {
            count = collect(waiting, waiting->events, waiting->most, &again_ms);
        }
        nic = either(nic_of(set), nic); /* a handshake may be over now */
        if (count != 0 || (count_ready(set) > 0 && ms != 0)) {
            return count;
        }
    }
    if (waiting->has_handshakes && ms != 0) {
        sock_signals_keep_out(&waiting->signals);
    }
    ms = shorter(ms, again_ms);
    void *joins = vipl_load_ptr(&set->joins); /* pairs with time_handshakes() */
    if (joins != NULL && joins != nic) {
        ms = shorter(ms, SOCK_OTHER_MS);
    }
    if (nic != NULL && ms != 0) {
        bool kernels;
        if (sleep_for_device(waiting, nic, ms, &kernels) < 0) {
            return -1;
        }
        ms = 0;
        trim_members(set);
        count = collect(waiting, waiting->events, waiting->most, &again_ms);
        if (count > 0 || !kernels) {
            return count;
        }
    }
    vipl_store_relaxed(&set->series, 0);
    return look_at_kernels_set(waiting, ms);
}

/* Waits for the kernel's set if it has all that is in the set. Returns false if the library has to
 * look: a connection is the library's, or has become that meanwhile, or a set is a member. */
static bool wait_for_kernel(struct epoll_waiting *waiting, int ms, int *count)
{
    struct sock_epoll *set = waiting->set;
    if (vipl_load_acquire(&set->watched) != 0 || vipl_load_acquire(&set->has_members) != 0) {
        return false;
    }
    int found = epoll_pwait(sock_epoll_kernel(set), waiting->events, waiting->most, ms, waiting->mask);
    *count =
        found > 0 && vipl_load_acquire(&set->has_own) != 0 ? sock_epoll_strip(waiting->events, found) : found;
    return *count != 0 || found == 0; /* else only the library's set is ready */
}

static int wait_until(struct epoll_waiting *waiting, uint64_t deadline)
{
    for (;;) {
        int ms = vipl_ms_left(deadline);
        int count = look_once(waiting, ms);
        if (count != 0 || ms == 0) {
            return count;
        }
        sock_signals_keep_out(&waiting->signals);
    }
}

static void renew(struct sock_epoll *set)
{
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&set->lock);
    sock_epoll_renew_locked(set);
    vipl_mutex_unlock(&set->lock);
    vipl_cancel_restore(cancel);
}

int sock_epoll_wait(int fd_of_set, struct epoll_event *events, int most, int ms, uint64_t deadline,
                    const sigset_t *mask)
{
    struct epoll_waiting waiting; /* set field by field: kept signals take much to clear */
    waiting.set = sock_epoll_of(fd_of_set);
    waiting.events = events;
    waiting.most = most;
    waiting.mask = mask;
    waiting.cancel = 0;
    waiting.has_handshakes = false;
    waiting.signals.keeps = false;
    if (waiting.set == NULL || most <= 0) {
        errno = waiting.set == NULL ? EBADF : EINVAL;
        if (waiting.set != NULL) {
            sock_file_put(&waiting.set->file);
        }
        return -1;
    }
    int result;
    int error;
    if (waiting.set->generation != vipl_fork_generation()) { /* written by the forked thread alone */
        renew(waiting.set);
    }
    sock_epoll_begin_sleep(&waiting.set->file);
    pthread_cleanup_push(end_epoll_wait, &waiting);
    if (!wait_for_kernel(&waiting, ms, &result)) {
        waiting.cancel = vipl_cancel_off();
        sock_epoll_drive(waiting.set);
        result = wait_until(&waiting, deadline);
        vipl_cancel_restore(waiting.cancel);
    }
    error = errno;
    pthread_cleanup_pop(1);
    errno = error;
    return result;
}
