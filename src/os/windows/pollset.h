/* SPDX-License-Identifier: MIT */
/* Sets of descriptors, inside src/os/windows. */
#ifndef VIPL_OS_WINDOWS_POLLSET_H
#define VIPL_OS_WINDOWS_POLLSET_H

#include "os/windows/descriptor.h"

struct vipl_set;

/* A place in a ring of places, whose set has one itself. */
struct vipl_place {
    struct vipl_place *next;
    struct vipl_place *previous;
};

/* An object in a set. All is guarded by vipl_objects. */
struct vipl_member {
    struct vipl_place pending; /* in the set's ring of members to report; it is the first field */
    bool is_pending;
    bool by_signal; /* reported once for each signal or series of signals */
    bool readable;  /* watched for something to take */
    bool writable;  /* watched for room to send */
    struct vipl_set *set;
    struct vipl_object *object;
    void *tag;
    struct vipl_member *next_member; /* of the set */
    struct vipl_member *next_set;    /* of the object: its place in another set */
};

/* An object's number is closed: no set has it any more. */
void vipl_members_leave(struct vipl_object *object);
/* Wakes all threads that sleep for the object. */
void vipl_sleeps_end(struct vipl_object *object);

#endif
