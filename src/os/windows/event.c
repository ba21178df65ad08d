/* SPDX-License-Identifier: MIT */
/* Event objects, which descriptors have from the first question on. */
#include "os/event.h"

#include <errno.h>

#include "os/windows/descriptor.h"

bool vipl_fds_are_of_system(void)
{
    return false;
}

int vipl_fd_event(int fd, void **event)
{
    int error = EBADF;
    AcquireSRWLockExclusive(&vipl_objects);
    struct vipl_object *object = vipl_object_at(fd);
    if (object != NULL) {
        if (object->event == NULL && !vipl_resource_fails(EMFILE)) {
            object->event = CreateEventW(NULL, TRUE, object->ready, NULL);
        }
        error = object->event == NULL ? EMFILE : 0;
        *event = object->event;
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    return error;
}
