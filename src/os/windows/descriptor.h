/* SPDX-License-Identifier: MIT */
/*
 * Descriptors, inside src/os/windows: numbers of this process's own. Each stands for an object of
 * this library, whose state is the process's own too: the thread that makes an object ready wakes
 * those that sleep for it, and no thread has to ask the system.
 */
#ifndef VIPL_OS_WINDOWS_DESCRIPTOR_H
#define VIPL_OS_WINDOWS_DESCRIPTOR_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include "os/os.h"

struct vipl_member;
struct vipl_sleep;

/* What a descriptor stands for. Allocated by vipl_alloc(), and freed by `end` when the last
 * reference is given back. */
struct vipl_object {
    void (*end)(struct vipl_object *object); /* constant */
    uint32_t references;                     /* atomic; the table has one */
    bool ready;    /* guarded by vipl_objects: there is something to take; of a set: some member is */
    bool writable; /* guarded by vipl_objects: there is room to send */
    bool hung_up;  /* guarded by vipl_objects: the other end sends nothing more */
    bool broken;   /* guarded by vipl_objects: both directions have ended */
    HANDLE event;  /* guarded by vipl_objects: set while `ready` is; NULL: nobody has asked for it */
    struct vipl_member *memberships; /* guarded by vipl_objects: the sets that have it */
    struct vipl_sleep *sleeps;       /* guarded by vipl_objects: the threads that sleep for it */
};

/* The one lock of the table of descriptors, of sets and of all that objects have in common. No
 * other lock is taken while it is held, but that of the heap. */
extern SRWLOCK vipl_objects;

/* Gives the object a number. On failure the caller keeps it. EMFILE: there are too many. */
int vipl_object_add(struct vipl_object *object, void (*end)(struct vipl_object *object), int *fd);
/* Returns the object with a reference of the caller's, if `end` is its kind's; NULL: the number is
 * of no such object. A NULL `end` stands for every kind. */
struct vipl_object *vipl_object_get(int fd, void (*end)(struct vipl_object *object));
void vipl_object_put(struct vipl_object *object); /* does nothing for NULL */
/* The object of a number, while vipl_objects is held; NULL: there is none. */
struct vipl_object *vipl_object_at(int fd);
/* Marks an object as ready or not, and wakes who sleeps for it or for a set that has it. */
void vipl_object_mark(struct vipl_object *object, bool ready);
/* The same while vipl_objects is held. */
void vipl_object_mark_locked(struct vipl_object *object, bool ready);
/* Marks an object whose other end has closed, which stays ready. */
void vipl_object_hang_up(struct vipl_object *object);
/* Tells a set that the state of one of its members has changed; vipl_objects is held. */
void vipl_member_changed(struct vipl_member *member);

/* Gives a section that a peer has passed a number: `process` is the peer. The handle is closed on
 * failure, and checked when the section is mapped. */
int vipl_section_adopt(HANDLE handle, HANDLE process, int *fd);
/* Makes a handle of the section for a peer. EBADF: the number is of no section. */
int vipl_section_pass(int fd, HANDLE process, HANDLE *handle);

/* What the system calls an error, as an errno value, or as a number that vipl_os_error() knows. */
int vipl_errno_of(DWORD error);

#endif
