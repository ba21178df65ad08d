/* SPDX-License-Identifier: MIT */
/* Byte streams between hosts. */
#ifndef VIPL_OS_SOCKET_H
#define VIPL_OS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/memory.h"

/* --- stream sockets between hosts: they never block, raise no signal, and do not survive exec - */

/* One end of a connection. host_len is 4 for IPv4, and 16 for IPv6. */
struct vipl_inet {
    uint8_t host[16];
    uint16_t host_len;
    uint16_t port;
    uint32_t scope; /* of a link-local IPv6 address */
};
/* Finds the index-th address of a host's name, among those that have host_len bytes. Returns false
 * if there is none. May block. */
bool vipl_inet_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out);
/* Whether an interface of this host has the address, whatever the system lets a program bind to. A
 * loopback interface has all addresses of its IPv4 network. */
bool vipl_inet_is_own(const struct vipl_inet *inet);
/* Finds the host's name, or writes its address as text if no name service has one. Returns false if
 * the text does not fit. May block. */
bool vipl_inet_reverse(const struct vipl_inet *inet, char *name, size_t size);

struct vipl_socket_tuning {
    uint32_t idle_ms;    /* milliseconds without data before a keepalive is sent */
    uint32_t timeout_ms; /* milliseconds without a reply before the connection is lost */
    /* bytes of the kernel's send and receive buffers each; 0: the system chooses */
    uint32_t buffer;
};
/* EADDRINUSE: the port is taken. */
int vipl_socket_listen(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *fd);
/* `tuning` is that of the listener. EAGAIN: there is no caller. */
int vipl_socket_accept(int listener, const struct vipl_socket_tuning *tuning, int *fd,
                       struct vipl_inet *peer);
/* Starts to connect from the address `local`. The descriptor becomes writable when the outcome is
 * known. */
int vipl_socket_connect(const struct vipl_inet *local, const struct vipl_inet *remote,
                        const struct vipl_socket_tuning *tuning, int *fd);
int vipl_socket_connect_result(int fd); /* 0: connected; else why not */
/* Reads signs that the peer's host still replies. Returns false if the system itself ends
 * connections whose peer does not. */
struct vipl_socket_signs {
    uint32_t silent_ms; /* since the last data or acknowledgement */
    bool unanswered;    /* data has not been acknowledged yet */
    bool queued;        /* there is data that may not even have been sent */
    bool probed;        /* more than one keepalive has not been answered */
};
bool vipl_socket_signs_of_life(int fd, struct vipl_socket_signs *out);
uint32_t vipl_socket_segment_bytes(int fd); /* the payload of one segment; 536 if it is not known */
/* Send and receive as many bytes as possible at once. EAGAIN: none. *received is 0 at the end of
 * the stream. `more`: the system may hold back the last partial packet until more is sent, or
 * vipl_socket_push() is called. Sending is no cancellation point; receiving is none for one
 * piece. */
int vipl_socket_send(int fd, const struct vipl_iov *pieces, unsigned count, bool more, size_t *sent);
void vipl_socket_push(int fd);
int vipl_socket_receive(int fd, const struct vipl_iov *pieces, unsigned count, size_t *received);
void vipl_socket_finish(int fd); /* nothing more will be sent */

#endif
