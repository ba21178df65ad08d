/* SPDX-License-Identifier: MIT */
/* Which connections are to be moved: the user's rules (VIPL_SOCKETS_RULES). */
#ifndef VIPL_SOCKETS_RULES_H
#define VIPL_SOCKETS_RULES_H

#include <stdbool.h>
#include <sys/socket.h>

/* Whether a connection to this remote address may be moved. */
bool sock_rules_allow_connect(const struct sockaddr *remote, socklen_t length);
/* Whether the connections of a listener with this local address may be moved. */
bool sock_rules_allow_listen(const struct sockaddr *local, socklen_t length);

#endif
