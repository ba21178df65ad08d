/* SPDX-License-Identifier: MIT */
/*
 * What the server may do. It has the rights of the program that began to share, and drops them with
 * it: when no client has them any more, the server becomes the users and groups of a client that is
 * left. A client that has dropped rights while other clients keep them gets nothing new by the
 * server's rights.
 */
#ifndef VIPL_SERVER_RIGHTS_H
#define VIPL_SERVER_RIGHTS_H

#include "os/os.h"

void vipl_server_rights_init(void);
/* A client has come, with its socket. Its process becomes known with its first note;
 * vipl_server_rights_end() is called when the client has ended. */
void vipl_server_rights_begin(unsigned client, int socket);
void vipl_server_rights_known(unsigned client, const struct vipl_sender *sender);
void vipl_server_rights_end(unsigned client);
/* Whether a client may make a call that needs the server's rights. */
enum vipl_permission {
    VIPL_REFUSED, /* the first time is logged */
    VIPL_ALLOWED,
    VIPL_CHANGING /* the process may be becoming another user, and is to ask again */
};
enum vipl_permission vipl_server_rights_allow(unsigned client, const struct vipl_sender *sender);
/* Logs, once, that a client that asked again for long is refused. */
void vipl_server_rights_log_refusal(unsigned client);
/* Checks, at most once a second, whether the server must drop its rights. */
void vipl_server_rights_refresh(void);

#endif
