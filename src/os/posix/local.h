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
/* Reads who has sent a message, if the system has said so. */
void vipl_local_read_sender(struct msghdr *msg, struct vipl_sender *sender);

#endif
