/* SPDX-License-Identifier: MIT */
/* Event objects of the system for descriptors, which only this system needs. */
#ifndef VIPL_OS_WINDOWS_EVENT_H
#define VIPL_OS_WINDOWS_EVENT_H

/* Stores a manual-reset event in *event that is signalled while the descriptor is readable. It is
 * the same one each time, and the descriptor's. EBADF: there is no such descriptor. */
int vipl_fd_event(int fd, void **event);

#endif
