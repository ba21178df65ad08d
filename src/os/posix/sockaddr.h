/* SPDX-License-Identifier: MIT */
/* Converts addresses of hosts to and from the system's form. Windows has the same one. */
#ifndef VIPL_OS_POSIX_SOCKADDR_H
#define VIPL_OS_POSIX_SOCKADDR_H

#ifdef _WIN32
#include <winsock2.h>
/* winsock2.h first */
#include <ws2tcpip.h>
#else
#include <netinet/in.h>
#include <sys/socket.h>
#endif

#include "os/os.h"

union vipl_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Writes the system's form of the address, and returns its length. */
socklen_t vipl_sockaddr_of(const struct vipl_inet *in, union vipl_sockaddr *out);
/* Reads an address; one of a family other than IPv4 and IPv6 becomes all zero. */
void vipl_sockaddr_read(const union vipl_sockaddr *in, struct vipl_inet *out);

#endif
