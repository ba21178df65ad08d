/* SPDX-License-Identifier: MIT */
/* What the parts of local.h share, inside src/os. */
#ifndef VIPL_OS_POSIX_LOCAL_H
#define VIPL_OS_POSIX_LOCAL_H

#include <sys/socket.h>

#include "os/local.h"

enum {
    VIPL_LOCAL_BACKLOG = 128,
    VIPL_LOCAL_SENDER_BYTES = 32 /* room for what the system adds to a message about its sender */
};

/* Opens a socket for messages. */
int vipl_local_open(int *fd);

/* --- what systems have differently: how messages stay whole, and who is at the other end --- */

extern const int vipl_local_type; /* SOCK_SEQPACKET or SOCK_STREAM */
/* Sets the options of a new socket. */
void vipl_local_tune(int fd);
/* Send and receive one message, whose bytes are in one piece, as vipl_local_send() and
 * vipl_local_receive() do. vipl_local_get() sets msg_controllen to what has come with the message,
 * also if it fails. */
int vipl_local_put(int fd, const struct msghdr *msg);
int vipl_local_get(int fd, struct msghdr *msg, size_t *length);
/* Reads who has sent a message, if the system has said so. */
void vipl_local_read_sender(struct msghdr *msg, struct vipl_sender *sender);

#endif
