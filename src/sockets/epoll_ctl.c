/* SPDX-License-Identifier: MIT */
/* epoll_ctl(), and what changes the members of a set without it: connect(), and a fork. */
#include "sockets/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sockets/wait.h"

/* A set as a member: the program's set has it, and the library knows of it. */
static int control_set(struct sock_epoll *set, int operation, int fd, struct sock_file *member,
                       struct epoll_event *event)
{
    if (epoll_ctl(sock_epoll_kernel(set), operation, fd, event) != 0) {
        return errno;
    }
    struct sock_entry *entry = sock_entry_find(set, fd, member);
    if (entry != NULL && operation != EPOLL_CTL_MOD) { /* for ADD: of an earlier descriptor */
        sock_entry_forget(entry);
    }
    if (operation == EPOLL_CTL_ADD) {
        entry = sock_entry_new(set, fd, member, event);
        if (entry != NULL) {
            vipl_list_append(&set->members, &entry->member_link);
            vipl_fetch_add(&set->has_members, 1);
        }
    } else if (operation == EPOLL_CTL_MOD && entry != NULL) {
        entry->events = event->events;
        entry->data = event->data;
    }
    return 0;
}

static bool may_control(int operation, const struct sock_entry *entry, const struct epoll_event *event)
{
    const uint32_t exclusive =
        EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
    if ((event->events & EPOLLEXCLUSIVE) != 0) {
        return operation == EPOLL_CTL_ADD && (event->events & ~exclusive) == 0;
    }
    return operation != EPOLL_CTL_MOD || (entry->events & EPOLLEXCLUSIVE) == 0;
}

static int add_conn(struct sock_epoll *set, int fd, struct sock_conn *conn, const struct epoll_event *event)
{
    int error = sock_epoll_make_own(set);
    if (error != 0) {
        return error;
    }
    struct sock_entry *entry = sock_entry_new(set, fd, &conn->file, event);
    if (entry == NULL) {
        return ENOMEM;
    }
    vipl_fetch_add(&set->watched, 1);
    return sock_entry_place(entry, conn);
}

static int control_conn(struct sock_epoll *set, int operation, int fd, struct sock_conn *conn,
                        struct epoll_event *event)
{
    struct sock_entry *entry = sock_entry_find(set, fd, &conn->file);
    if (operation != EPOLL_CTL_ADD && operation != EPOLL_CTL_MOD && operation != EPOLL_CTL_DEL) {
        return EINVAL;
    }
    if (operation != EPOLL_CTL_DEL && event == NULL) {
        return EFAULT;
    }
    if ((entry == NULL) != (operation == EPOLL_CTL_ADD)) {
        return entry == NULL ? ENOENT : EEXIST;
    }
    if (operation != EPOLL_CTL_DEL && !may_control(operation, entry, event)) {
        return EINVAL;
    }
    if (operation == EPOLL_CTL_ADD) {
        return add_conn(set, fd, conn, event);
    }
    if (operation == EPOLL_CTL_MOD) {
        return sock_entry_rearm(entry, event);
    }
    sock_entry_leave_kernel(entry);
    sock_entry_forget(entry);
    return 0;
}

/* A set that is to be a member of another one keeps its waker signalled while entries are ready. */
static void watch_set(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->ready_lock);
    set->is_watched = true;
    if (!vipl_list_empty(&set->ready)) {
        sock_epoll_signal_locked(set);
    }
    vipl_mutex_unlock(&set->ready_lock);
}

static int control_locked(struct sock_epoll *set, int operation, int fd, struct epoll_event *event)
{
    sock_epoll_sweep_locked(set);
    struct sock_file *file = sock_file_of(fd); /* under the lock: sock_epoll_adopt() takes it later */
    struct sock_conn *conn =
        file != NULL && file->kind == &sock_conn_kind ? VIPL_CONTAINER(file, struct sock_conn, file) : NULL;
    bool is_entry = conn != NULL && sock_entry_find(set, fd, file) != NULL;
    int error;
    if (conn != NULL && (is_entry || sock_entry_place_for(sock_conn_state(conn)) != SOCK_IN_KERNEL)) {
        error = control_conn(set, operation, fd, conn, event);
    } else if (conn == NULL && file != NULL && file != &set->file) {
        watch_set(file);
        error = control_set(set, operation, fd, file, event);
    } else {
        error = sock_epoll_kernel_ctl(set, operation, fd, event);
    }
    if (file != NULL) {
        sock_file_put(file);
    }
    return error;
}

/* Programs change what they wait for with most of their calls: what is the kernel's alone takes a
 * short way. */
static bool is_kernels_alone(const struct sock_epoll *set, int fd)
{
    return set->generation == vipl_fork_generation() && sock_file_peek(fd) == NULL;
}

static int control_any(struct sock_epoll *set, int operation, int fd, struct epoll_event *event)
{
    int cancel = vipl_cancel_off();
    sock_epoll_renew_locked(set);
    int error = control_locked(set, operation, fd, event);
    vipl_cancel_restore(cancel);
    return error;
}

int sock_epoll_ctl(int fd_of_set, int operation, int fd, struct epoll_event *event)
{
    struct sock_epoll *set = sock_epoll_of(fd_of_set);
    if (set == NULL) {
        return epoll_ctl(fd_of_set, operation, fd, event);
    }
    vipl_mutex_lock(&set->lock); /* under which sock_epoll_adopt() comes after the table has a file */
    int error = is_kernels_alone(set, fd) ? sock_epoll_kernel_ctl(set, operation, fd, event)
                                          : control_any(set, operation, fd, event);
    vipl_mutex_unlock(&set->lock);
    sock_file_put(&set->file);
    errno = error != 0 ? error : errno;
    return error == 0 ? 0 : -1;
}

/* --- a descriptor becomes a connection --- */

static void adopt_locked(struct sock_epoll *set, int fd, struct sock_conn *conn)
{
    struct epoll_event event;
    if (set->generation != vipl_fork_generation() || !sock_epoll_recorded(set, fd, &event)) {
        return;
    }
    int error = sock_epoll_kernel_ctl(set, EPOLL_CTL_DEL, fd, NULL);
    if (error != 0) { /* the record was of an earlier file */
        sock_epoll_record(set, fd, NULL);
    } else if (add_conn(set, fd, conn, &event) != 0) {
        (void)sock_epoll_kernel_ctl(set, EPOLL_CTL_ADD, fd, &event);
    }
}

void sock_epoll_adopt(int fd, struct sock_conn *conn)
{
    for (struct sock_epoll *set = sock_epoll_next(NULL); set != NULL; set = sock_epoll_next(set)) {
        vipl_mutex_lock(&set->lock);
        adopt_locked(set, fd, conn);
        vipl_mutex_unlock(&set->lock);
    }
}

/* --- fork --- */

/* Whether the set of the parent has the descriptor as a member: one that was closed has left the
 * set without a call, and may be another file's now. What is no member enters the set for a moment,
 * for no events; what a wait of the parent's finds of it meanwhile has the library's key, and is
 * left out. */
static bool is_member(int kernel, int fd)
{
    struct epoll_event event = {.data.u64 = sock_epoll_key()};
    if (epoll_ctl(kernel, EPOLL_CTL_ADD, fd, &event) == 0) {
        epoll_ctl(kernel, EPOLL_CTL_DEL, fd, NULL);
        return false;
    }
    return errno != EBADF && errno != EPERM;
}

static void free_entry(struct sock_entry *entry)
{
    sock_file_put(entry->file);
    vipl_free(entry);
}

/* The members of a set of the parent, without those whose descriptor has been closed. A connection
 * has left the set when it was closed. */
static void drop_closed(struct sock_epoll *set, int kernel)
{
    for (unsigned i = 0; i < set->room; i++) {
        struct sock_epoll_row *row = &set->rows[i];
        row->is_recorded = row->is_recorded && is_member(kernel, (int)i);
        for (struct sock_entry **at = &row->first; *at != NULL;) {
            struct sock_entry *entry = *at;
            if (entry->place != SOCK_IN_KERNEL || is_member(kernel, (int)i)) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            free_entry(entry);
        }
    }
}

/* Makes a set of the kernel's that is this process's alone, in place of the one that it shares with
 * its parent, in which the parent's library has a member. */
static void leave_shared(struct sock_epoll *set, int kernel)
{
    drop_closed(set, kernel);
    int made = epoll_create1(0);
    if (made >= 0) {
        (void)dup3(made, kernel, (fcntl(kernel, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
        close(made);
    }
}

/* The set gets a member that it had in the parent. */
static void have_again(struct sock_epoll *set, int fd, uint32_t events, epoll_data_t data, bool was_shared)
{
    struct epoll_event event = {.events = events, .data = data};
    if (was_shared) {
        (void)control_locked(set, EPOLL_CTL_ADD, fd, &event); /* or the descriptor is closed */
    } else {
        sock_epoll_record(set, fd, &event);
    }
}

void sock_epoll_renew_locked(struct sock_epoll *set)
{
    if (set->generation == vipl_fork_generation()) {
        return;
    }
    struct sock_epoll_row *rows = set->rows;
    unsigned room = set->room;
    bool was_shared = set->own >= 0;
    int kernel = sock_epoll_kernel(set);
    if (was_shared) {
        leave_shared(set, kernel);
    }
    sock_epoll_clear(set, kernel);
    for (unsigned i = 0; i < room; i++) {
        if (rows[i].is_recorded) {
            have_again(set, (int)i, rows[i].events, rows[i].data, was_shared);
        }
        for (struct sock_entry *entry = rows[i].first, *next; entry != NULL; entry = next) {
            next = entry->next;
            have_again(set, (int)i, entry->disarmed ? EPOLLONESHOT : entry->events, entry->data, was_shared);
            free_entry(entry);
        }
    }
    vipl_free(rows);
}
