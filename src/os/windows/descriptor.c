/* SPDX-License-Identifier: MIT */
/* The table of descriptors. */
#include "os/windows/descriptor.h"

#include <errno.h>

#include "os/os_atomic.h"
#include "os/windows/pollset.h"

enum { FIRST = 3, MOST = 65536 };

SRWLOCK vipl_objects = SRWLOCK_INIT;

static struct vipl_object *table[MOST]; /* guarded by vipl_objects */
static int lowest_free = FIRST;         /* guarded by vipl_objects: all numbers below are taken */

int vipl_object_add(struct vipl_object *object, void (*end)(struct vipl_object *object), int *fd)
{
    int at;
    if (vipl_resource_fails(EMFILE)) {
        return EMFILE;
    }
    object->end = end;
    object->references = 1;
    AcquireSRWLockExclusive(&vipl_objects);
    for (at = lowest_free; at < MOST && table[at] != NULL; at++) {
    }
    lowest_free = at;
    if (at < MOST) {
        table[at] = object;
        *fd = at;
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    return at < MOST ? 0 : EMFILE;
}

struct vipl_object *vipl_object_at(int fd)
{
    return fd >= FIRST && fd < MOST ? table[fd] : NULL;
}

struct vipl_object *vipl_object_get(int fd, void (*end)(struct vipl_object *object))
{
    AcquireSRWLockShared(&vipl_objects);
    struct vipl_object *object = vipl_object_at(fd);
    if (object != NULL && end != NULL && object->end != end) {
        object = NULL;
    }
    if (object != NULL) {
        vipl_fetch_add(&object->references, 1);
    }
    ReleaseSRWLockShared(&vipl_objects);
    return object;
}

void vipl_object_put(struct vipl_object *object)
{
    if (object != NULL && vipl_fetch_add(&object->references, (uint32_t)-1) == 1) {
        if (object->event != NULL) {
            CloseHandle(object->event);
        }
        object->end(object);
    }
}

/* Each thread that sleeps for the object finds that its number is not open any more. */
void vipl_fd_close(int fd)
{
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_object *object = vipl_object_at(fd);
    if (object != NULL) {
        table[fd] = NULL;
        lowest_free = fd < lowest_free ? fd : lowest_free;
        vipl_members_leave(object);
        vipl_sleeps_end(object);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    vipl_object_put(object);
}

void vipl_object_mark_locked(struct vipl_object *object, bool ready)
{
    object->ready = ready;
    if (object->event != NULL) {
        (void)(ready ? SetEvent(object->event) : ResetEvent(object->event));
    }
    for (struct vipl_member *member = object->memberships; member != NULL; member = member->next_set) {
        vipl_member_changed(member);
    }
    if (ready) {
        vipl_sleeps_end(object);
    }
}

void vipl_object_mark(struct vipl_object *object, bool ready)
{
    AcquireSRWLockExclusive(&vipl_objects);
    vipl_object_mark_locked(object, ready);
    ReleaseSRWLockExclusive(&vipl_objects);
}

void vipl_object_hang_up(struct vipl_object *object)
{
    AcquireSRWLockExclusive(&vipl_objects);
    object->hung_up = object->broken = true;
    vipl_object_mark_locked(object, true);
    ReleaseSRWLockExclusive(&vipl_objects);
}
