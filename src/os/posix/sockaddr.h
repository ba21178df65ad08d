/* SPDX-License-Identifier: MIT */
/* Addresses of hosts in the system's form, and their names. Windows has the same ones. */
#ifndef VIPL_OS_POSIX_SOCKADDR_H
#define VIPL_OS_POSIX_SOCKADDR_H

#ifdef _WIN32
#include <winsock2.h>
/* winsock2.h first */
#include <ws2tcpip.h>
#else
#include <netdb.h>
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
/* vipl_inet_resolve() and vipl_inet_reverse(), once the system's sockets may be used. */
bool vipl_sockaddr_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out);
bool vipl_sockaddr_reverse(const struct vipl_inet *inet, char *name, size_t size);

#endif
