/* SPDX-License-Identifier: MIT */
/* epoll_ctl(), and what changes the members of a set without it: connect(), and a fork. */
#include "sockets/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sockets/wait.h"

/* What is recorded of a descriptor that the kernel's set has, in case it becomes a connection. */
static int control_kernels(struct sock_epoll *set, int operation, int fd, struct sock_file *file,
                           struct epoll_event *event)
{
    int rc = epoll_ctl(sock_epoll_kernel(set), operation, fd, event);
    if (rc != 0) {
        return errno;
    }
    struct sock_entry *entry = sock_entry_find(set, fd, file);
    if (operation == EPOLL_CTL_DEL || (operation == EPOLL_CTL_ADD && entry != NULL)) {
        if (entry != NULL) { /* of an earlier file, for ADD */
            sock_entry_forget(entry);
        }
        entry = NULL;
    }
    if (operation == EPOLL_CTL_ADD) {
        entry = sock_entry_new(set, fd, file, event);
        if (entry != NULL && file != NULL) {
            vipl_list_append(&set->members, &entry->member_link);
            vipl_fetch_add(&set->has_members, 1);
        }
    } else if (entry != NULL) {
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
    error = sock_entry_place(entry, conn);
    if (error != 0) {
        sock_entry_forget(entry);
    }
    return error;
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
        error = control_kernels(set, operation, fd, file, event);
    } else {
        error = control_kernels(set, operation, fd, NULL, event);
    }
    if (file != NULL) {
        sock_file_put(file);
    }
    return error;
}

int sock_epoll_ctl(int fd_of_set, int operation, int fd, struct epoll_event *event)
{
    struct sock_epoll *set = sock_epoll_of(fd_of_set);
    if (set == NULL) {
        return epoll_ctl(fd_of_set, operation, fd, event);
    }
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&set->lock);
    sock_epoll_renew_locked(set);
    int error = control_locked(set, operation, fd, event);
    vipl_mutex_unlock(&set->lock);
    sock_file_put(&set->file);
    vipl_cancel_restore(cancel);
    errno = error != 0 ? error : errno;
    return error == 0 ? 0 : -1;
}

/* --- a descriptor becomes a connection --- */

static void adopt_locked(struct sock_epoll *set, int fd, struct sock_conn *conn)
{
    struct sock_entry *entry = sock_entry_find(set, fd, NULL);
    if (entry == NULL || set->generation != vipl_fork_generation()) {
        return;
    }
    struct epoll_event event = {.events = entry->events, .data = entry->data};
    bool is_there = epoll_ctl(sock_epoll_kernel(set), EPOLL_CTL_DEL, fd, NULL) == 0;
    sock_entry_forget(entry); /* else it was of an earlier file */
    if (is_there && add_conn(set, fd, conn, &event) != 0) {
        (void)control_kernels(set, EPOLL_CTL_ADD, fd, NULL, &event);
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

/* Whether the set of the parent has the member that is recorded: a descriptor that was closed has
 * left the set without a call, and may be another file's now. What is no member enters the set for
 * a moment, for no events; what a wait of the parent's finds of it meanwhile has the library's key,
 * and is left out. */
static bool is_member(int kernel, const struct sock_entry *entry)
{
    struct epoll_event event = {.data.u64 = sock_epoll_key()};
    if (entry->place != SOCK_IN_KERNEL) {
        return true; /* its file is known, and leaves the set when it is closed */
    }
    if (epoll_ctl(kernel, EPOLL_CTL_ADD, entry->fd, &event) == 0) {
        epoll_ctl(kernel, EPOLL_CTL_DEL, entry->fd, NULL);
        return false;
    }
    return errno != EBADF && errno != EPERM;
}

/* The entries of a set of the parent, without those whose descriptor has been closed. */
static void drop_closed(struct sock_epoll *set, int kernel)
{
    for (unsigned i = 0; i < set->room; i++) {
        for (struct sock_entry **at = &set->by_fd[i]; *at != NULL;) {
            struct sock_entry *entry = *at;
            if (is_member(kernel, entry)) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            if (entry->file != NULL) {
                sock_file_put(entry->file);
            }
            vipl_free(entry);
        }
    }
}

/* Makes a set of the kernel's that is this process's alone, in place of the one that it shares with
 * its parent, in which the parent's library has a member. */
void sock_epoll_renew_locked(struct sock_epoll *set)
{
    if (set->generation == vipl_fork_generation()) {
        return;
    }
    struct sock_entry **by_fd = set->by_fd;
    unsigned room = set->room;
    bool was_shared = set->own >= 0;
    int kernel = sock_epoll_kernel(set);
    if (was_shared) {
        drop_closed(set, kernel);
    }
    int made = was_shared ? epoll_create1(0) : -1;
    if (made >= 0) {
        (void)dup3(made, kernel, (fcntl(kernel, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
        close(made);
    }
    sock_epoll_clear(set, kernel);
    for (unsigned i = 0; i < room; i++) {
        for (struct sock_entry *entry = by_fd[i], *next; entry != NULL; entry = next) {
            struct epoll_event event = {.events = entry->disarmed ? EPOLLONESHOT : entry->events,
                                        .data = entry->data};
            next = entry->next;
            if (was_shared) {
                (void)control_locked(set, EPOLL_CTL_ADD, entry->fd, &event); /* or it is closed */
            } else {
                (void)sock_entry_new(set, entry->fd, NULL, &event);
            }
            if (entry->file != NULL) {
                sock_file_put(entry->file);
            }
            vipl_free(entry);
        }
    }
    vipl_free(by_fd);
}
