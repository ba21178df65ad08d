/* SPDX-License-Identifier: MIT */
/* What a program waits for in its own way: descriptors, or events in their place. */
#ifndef VIPL_OS_EVENT_H
#define VIPL_OS_EVENT_H

#include <stdbool.h>

/* Whether descriptors are the system's, so that a program's own calls may wait for them. */
bool vipl_fds_are_of_system(void);

/* Only where descriptors are not the system's. Stores a manual-reset event in *event that is
 * signalled while the descriptor is readable. The event is the same one each time, and the
 * descriptor's. EBADF: there is no such descriptor. */
int vipl_fd_event(int fd, void **event);

#endif
