/* SPDX-License-Identifier: MIT */
/* The devices of this process's streams: the one that VIPL_SOCKETS_DEVICE names, and those that
 * rules name for connections with other hosts. */
#ifndef VIPL_SOCKETS_DEVICE_H
#define VIPL_SOCKETS_DEVICE_H

#include <stdbool.h>
#include <string.h>

/* Returns true for a name of the device loopback: its VIs are of one host, and of one user. */
static inline bool sock_device_is_local(const char *name)
{
    return strncmp(name, "loopback", strlen("loopback")) == 0;
}

/* Returns true if two names are of one kind of device, as "tcp:eth0" and "tcp:192.0.2.7" are. */
static inline bool sock_device_is_alike(const char *one, const char *other)
{
    size_t length = strcspn(one, ":");
    return length == strcspn(other, ":") && memcmp(one, other, length) == 0;
}

/* The name of the process's own device, which is not a rule's. */
const char *sock_device_name(void);

struct vipl_stream_nic;

/* The device of that name for the streams that the calling thread connects, which is opened at the
 * first call; NULL: it cannot be opened, which has been logged. `name` is constant for as long as
 * the process lives. A process has a few NIC handles of each device, and threads beyond their
 * number share them. A device lasts as long as the process. */
struct vipl_stream_nic *sock_device(const char *name);
/* The caller is to have the device driven by a thread of the library (drive.c). Returns false if
 * another caller is to, or has done so. */
bool sock_device_claim(struct vipl_stream_nic *nic);
/* There is no thread for it: a later call may claim the device again. */
void sock_device_unclaim(struct vipl_stream_nic *nic);
void sock_device_forked(void);

#endif
