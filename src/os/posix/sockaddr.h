/* SPDX-License-Identifier: MIT */
/* Addresses of hosts, as the system has them. */
#ifndef VIPL_OS_POSIX_SOCKADDR_H
#define VIPL_OS_POSIX_SOCKADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "os/os.h"

union vipl_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Returns its length. */
socklen_t vipl_sockaddr_of(const struct vipl_inet *in, union vipl_sockaddr *out);
/* One of another family is all zero. */
void vipl_sockaddr_read(const union vipl_sockaddr *in, struct vipl_inet *out);

#endif
