/* SPDX-License-Identifier: MIT */
/* Waiting for devices: by the program's threads, and by the library's where no thread of the
 * program waits. */
#ifndef VIPL_SOCKETS_DRIVE_H
#define VIPL_SOCKETS_DRIVE_H

#include <poll.h>
#include <signal.h>

struct vipl_stream_nic;

/* Between two looks at a VI whose device connects it and is driven by nobody. */
enum { SOCK_OTHER_MS = 1 };

/* Sleeps until something has come for a moved connection of the device, and as poll() does; NULL:
 * only as poll() does. Returns what vipl_stream_nic_wait() does. */
int sock_sleep(struct vipl_stream_nic *nic, struct pollfd *fds, unsigned count, int ms, const sigset_t *mask);

/* A thread waits for streams of several devices, and drives another one itself: from now on a
 * thread of the library drives this one. */
void sock_drive(struct vipl_stream_nic *nic);

#endif
