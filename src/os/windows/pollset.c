/* SPDX-License-Identifier: MIT */
/*
 * Sets of descriptors. A set has a ring of the members that are ready: nobody looks through the
 * others. A member stays in the ring for as long as it is ready, and goes to its end when it is
 * reported.
 */
#include "os/windows/pollset.h"

#include <errno.h>

#include "os/os_atomic.h"

struct vipl_set {
    struct vipl_object object;
    struct vipl_place pending;   /* guarded by vipl_objects */
    struct vipl_member *members; /* guarded by vipl_objects */
};

/* --- the ring --- */

static void leave_ring(struct vipl_member *member)
{
    if (member->is_pending) {
        member->pending.previous->next = member->pending.next;
        member->pending.next->previous = member->pending.previous;
        member->is_pending = false;
    }
}

static void enter_ring(struct vipl_member *member)
{
    struct vipl_place *ring = &member->set->pending;
    leave_ring(member);
    member->pending.next = ring;
    member->pending.previous = ring->previous;
    ring->previous->next = &member->pending;
    ring->previous = &member->pending;
    member->is_pending = true;
}

static bool has_pending(const struct vipl_set *set)
{
    return set->pending.next != &set->pending;
}

/* Whether a member is to be reported: also if it is broken, whatever it is watched for. */
static bool is_ready(const struct vipl_member *member)
{
    const struct vipl_object *object = member->object;
    return (member->readable && object->ready) || (member->writable && object->writable) || object->broken;
}

void vipl_member_changed(struct vipl_member *member)
{
    struct vipl_set *set = member->set;
    const bool ready = is_ready(member);
    if (ready && (!member->is_pending || member->by_signal)) {
        enter_ring(member);
    } else if (!ready) {
        leave_ring(member);
    }
    vipl_object_mark_locked(&set->object, has_pending(set));
}

/* --- members --- */

/* Takes a member out of its set and its object; vipl_objects is held. */
static void drop(struct vipl_member *member)
{
    struct vipl_member **at = &member->set->members;
    while (*at != member) {
        at = &(*at)->next_member;
    }
    *at = member->next_member;
    at = &member->object->memberships;
    while (*at != member) {
        at = &(*at)->next_set;
    }
    *at = member->next_set;
    leave_ring(member);
    vipl_object_mark_locked(&member->set->object, has_pending(member->set));
    vipl_free(member);
}

void vipl_members_leave(struct vipl_object *object)
{
    while (object->memberships != NULL) {
        drop(object->memberships);
    }
}

static void end_set(struct vipl_object *object)
{
    struct vipl_set *set = (struct vipl_set *)(void *)object;
    AcquireSRWLockExclusive(&vipl_objects);
    while (set->members != NULL) {
        drop(set->members);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    vipl_free(set);
}

static struct vipl_set *set_at(const struct vipl_pollset *set)
{
    struct vipl_object *object = vipl_object_at(set->fd);
    return object == NULL || object->end != end_set ? NULL : (struct vipl_set *)(void *)object;
}

int vipl_pollset_open(struct vipl_pollset *out)
{
    struct vipl_set *set = vipl_zalloc(sizeof(*set));
    if (set == NULL) {
        return ENOMEM;
    }
    set->pending.next = set->pending.previous = &set->pending;
    int error = vipl_object_add(&set->object, end_set, &out->fd);
    if (error != 0) {
        vipl_free(set);
    }
    return error;
}

void vipl_pollset_close(struct vipl_pollset *set)
{
    vipl_fd_close(set->fd);
    set->fd = -1;
}

static int add_member(struct vipl_pollset *to, int fd, const struct vipl_member *how)
{
    struct vipl_member *member = vipl_resource_fails(ENOSPC) ? NULL : vipl_zalloc(sizeof(*member));
    if (member == NULL) {
        return ENOSPC;
    }
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_set *set = set_at(to);
    struct vipl_object *object = vipl_object_at(fd);
    bool good = set != NULL && object != NULL && object != &set->object;
    if (good) {
        *member = *how;
        member->set = set;
        member->object = object;
        member->next_member = set->members;
        set->members = member;
        member->next_set = object->memberships;
        object->memberships = member;
        vipl_member_changed(member);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    if (!good) {
        vipl_free(member);
    }
    return good ? 0 : EBADF;
}

int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag)
{
    return add_member(set, fd, &(struct vipl_member){.tag = tag, .readable = true});
}

/* Reported when it is broken, which is when the other end is closed. */
int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag)
{
    return vipl_pollset_watch(set, fd, tag, true, false, false);
}

int vipl_pollset_add_signals(struct vipl_pollset *set, int fd, void *tag)
{
    return add_member(set, fd, &(struct vipl_member){.tag = tag, .readable = true, .by_signal = true});
}

/* The member of a descriptor; NULL: the set has none. vipl_objects is held. */
static struct vipl_member *member_of(const struct vipl_pollset *of, int fd)
{
    struct vipl_set *set = set_at(of);
    struct vipl_object *object = vipl_object_at(fd);
    struct vipl_member *member = set == NULL ? NULL : set->members;
    while (member != NULL && member->object != object) {
        member = member->next_member;
    }
    return member;
}

int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable)
{
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_member *member = member_of(set, fd);
    if (member != NULL) {
        member->tag = tag;
        member->readable = readable;
        member->writable = writable;
        vipl_member_changed(member);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    return member == NULL ? ENOENT : 0;
}

int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable, bool writable)
{
    const struct vipl_member how = {.tag = tag, .readable = readable, .writable = writable};
    return is_new ? add_member(set, fd, &how) : vipl_pollset_change(set, fd, tag, readable, writable);
}

void vipl_pollset_remove(struct vipl_pollset *from, int fd)
{
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_member *member = member_of(from, fd);
    if (member != NULL) {
        drop(member);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
}

unsigned vipl_pollset_ready(struct vipl_pollset *from, struct vipl_ready *out, unsigned max)
{
    unsigned found = 0;
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_set *set = set_at(from);
    struct vipl_place *last = set == NULL ? NULL : set->pending.previous;
    for (bool more = set != NULL && has_pending(set); more && found < max;) {
        struct vipl_member *member = (struct vipl_member *)(void *)set->pending.next;
        more = &member->pending != last;
        const struct vipl_object *object = member->object;
        out[found++] = (struct vipl_ready){.tag = member->tag,
                                           .hangup = object->hung_up || object->broken,
                                           .broken = object->broken,
                                           .readable = object->ready,
                                           .writable = object->writable};
        if (member->by_signal) {
            leave_ring(member);
        } else {
            enter_ring(member);
        }
    }
    if (found > 0) {
        vipl_object_mark_locked(&set->object, has_pending(set));
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    return found;
}

void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns)
{
    const uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0 ? 1 : 0);
    (void)vipl_poll(&set->fd, 1, ms > INT32_MAX ? -1 : (int)ms, NULL);
}

bool vipl_fd_is_poller(int fd)
{
    struct vipl_object *object = vipl_object_get(fd, end_set);
    vipl_object_put(object);
    return object != NULL;
}
