/* SPDX-License-Identifier: MIT */
/* An open connection. The device's lock is held. */
#ifndef VIPL_TCP_OPEN_H
#define VIPL_TCP_OPEN_H

#include "backends/tcp/conn.h"

void vipl_tcp_open(struct tcp_conn *conn); /* the VI is connected from here on */
/* Likewise with a foreign peer, from which nothing has come yet. `quiet`: posts wait until it has sent
 * something. */
void vipl_tcp_open_foreign(struct tcp_conn *conn, bool quiet);

#endif
