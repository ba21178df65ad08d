/* SPDX-License-Identifier: MIT */
/*
 * Poll sets are kqueues. A kqueue reports reading and writing apart: one call of
 * vipl_pollset_ready() joins what it finds of one member, so that a member which its owner removes
 * is not reported once more.
 *
 * That a member is broken is reported of writing alone: a peer that sends nothing more ends reading
 * only. A member that is not watched for writing is watched for more room than a socket has, once
 * for each change.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/types.h>
/* behind the types that it needs */
#include <sys/event.h>
#include <time.h>

#include "os/os.h"
#include "os/posix/ppoll.h"

enum { MAX_READY = 16 }; /* of one system call */

int vipl_pollset_open(struct vipl_pollset *set)
{
    vipl_fd_begin();
    set->fd = vipl_resource_fails(EMFILE) ? -1 : kqueue();
    int error = vipl_fd_adopt(&set->fd);
    if (error == 0) {
        (void)fcntl(set->fd, F_SETFD, FD_CLOEXEC);
    }
    vipl_fd_end();
    return error;
}

void vipl_pollset_close(struct vipl_pollset *set)
{
    vipl_fd_close(set->fd);
    set->fd = -1;
}

static int change(const struct vipl_pollset *set, int fd, short filter, unsigned short flags, void *tag)
{
    struct kevent event;
    bool only_end = filter == EVFILT_WRITE && (flags & EV_CLEAR) != 0;
    EV_SET(&event, (uintptr_t)fd, filter, flags, only_end ? NOTE_LOWAT : 0u, only_end ? INT_MAX : 0, tag);
    return kevent(set->fd, &event, 1, NULL, 0, NULL) == 0 ? 0 : errno;
}

/* Watches for writing, or for the end of writing alone. A kqueue may keep the flags of a filter
 * that is added again: the former one is removed first. */
static int watch_writing(const struct vipl_pollset *set, int fd, void *tag, bool writable)
{
    unsigned flags = writable ? EV_ADD : EV_ADD | EV_CLEAR;
    (void)change(set, fd, EVFILT_WRITE, EV_DELETE, tag);
    return change(set, fd, EVFILT_WRITE, (unsigned short)flags, tag);
}

int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag)
{
    return vipl_resource_fails(ENOSPC) ? ENOSPC : change(set, fd, EVFILT_READ, EV_ADD, tag);
}

int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag)
{
    return vipl_resource_fails(ENOSPC) ? ENOSPC : watch_writing(set, fd, tag, false);
}

int vipl_pollset_add_signals(struct vipl_pollset *set, int fd, void *tag)
{
    return vipl_resource_fails(ENOSPC) ? ENOSPC : change(set, fd, EVFILT_READ, EV_ADD | EV_CLEAR, tag);
}

void vipl_pollset_remove(struct vipl_pollset *set, int fd)
{
    (void)change(set, fd, EVFILT_READ, EV_DELETE, NULL);
    (void)change(set, fd, EVFILT_WRITE, EV_DELETE, NULL);
}

static void *tag_of(const struct kevent *event)
{
    return (void *)event->udata;
}

/* Adds an event to what is known of its member. Returns false if it is the room that the member has
 * been watched for in place of its end. */
static bool add_event(struct vipl_ready *member, const struct kevent *event)
{
    bool ended = (event->flags & EV_EOF) != 0;
    bool failed = (event->flags & EV_ERROR) != 0 || (ended && event->fflags != 0);
    bool writes = event->filter == EVFILT_WRITE;
    if (writes && !ended && !failed && (event->flags & EV_CLEAR) != 0) {
        return false;
    }
    member->tag = tag_of(event);
    member->hangup |= ended || failed;
    member->broken |= failed || (ended && writes);
    member->readable |= !writes;
    member->writable |= writes;
    return true;
}

unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out, unsigned max)
{
    const struct timespec at_once = {0, 0};
    struct kevent events[MAX_READY];
    unsigned found = 0;
    int n = kevent(set->fd, NULL, 0, events, max < MAX_READY ? (int)max : MAX_READY, &at_once);
    for (int i = 0; i < n; i++) {
        unsigned at = 0;
        while (at < found && out[at].tag != tag_of(&events[i])) {
            at++;
        }
        if (at == found) {
            out[at] = (struct vipl_ready){.tag = NULL};
            found += add_event(&out[at], &events[i]) ? 1 : 0;
        } else {
            (void)add_event(&out[at], &events[i]);
        }
    }
    return found;
}

int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable)
{
    return vipl_pollset_watch(set, fd, tag, false, readable, writable);
}

int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable, bool writable)
{
    if (is_new && vipl_resource_fails(ENOSPC)) {
        return ENOSPC;
    }
    int error = 0;
    if (readable) {
        error = change(set, fd, EVFILT_READ, EV_ADD, tag);
    } else {
        (void)change(set, fd, EVFILT_READ, EV_DELETE, tag);
    }
    return error == 0 ? watch_writing(set, fd, tag, writable) : error;
}

void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns)
{
    const uint64_t second = 1000000000;
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / second % INT32_MAX),
                               .tv_nsec = (long)(timeout_ns % second)};
    struct pollfd entry = {.fd = set->fd, .events = POLLIN};
    (void)vipl_ppoll(&entry, 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
}
