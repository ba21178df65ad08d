/* SPDX-License-Identifier: MIT */
/*
 * What the server may do. It has the rights of the program that began to share, and drops them with it: when none of its
 * clients has them any more, it becomes the users and groups of one that is left. A client that has dropped rights while
 * others keep them gets nothing new by the server's.
 */
#ifndef VIPL_SERVER_RIGHTS_H
#define VIPL_SERVER_RIGHTS_H

#include "os/os.h"

void vipl_server_rights_init(void);
/* A client has come, with its socket. Its process is not known before its first note, and is gone at its end. */
void vipl_server_rights_begin(unsigned client, int socket);
void vipl_server_rights_known(unsigned client, const struct vipl_sender *sender);
void vipl_server_rights_end(unsigned client);
/* Whether a client may have what needs the server's rights. The first refusal is logged. */
bool vipl_server_rights_allow(unsigned client, const struct vipl_sender *sender);
/* Drops the server's rights if it is time; once a second at most. */
void vipl_server_rights_look(void);

#endif
