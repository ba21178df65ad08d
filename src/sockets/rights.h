/* SPDX-License-Identifier: MIT */
/* Descriptors that are passed to other processes (SCM_RIGHTS). A connection that is not moved may
 * be passed: the process that makes the first call decides. */
#ifndef VIPL_SOCKETS_RIGHTS_H
#define VIPL_SOCKETS_RIGHTS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Returns false, with errno set, if a message would pass a connection that is moved. */
bool sock_rights_may_pass(const struct msghdr *message);
/* A message has come: takes up the connections and listeners that came with it. */
void sock_rights_received(const struct msghdr *message);

#endif
