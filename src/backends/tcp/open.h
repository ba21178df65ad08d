/* SPDX-License-Identifier: MIT */
/* An open connection. The device's lock is held. */
#ifndef VIPL_TCP_OPEN_H
#define VIPL_TCP_OPEN_H

#include "backends/tcp/conn.h"

void vipl_tcp_open(struct tcp_conn *conn); /* the VI is connected from here on */
/* The same with a foreign peer that has sent nothing yet. `peer_sends_first`: posts wait
 * until it has. */
void vipl_tcp_open_foreign(struct tcp_conn *conn, bool peer_sends_first);

#endif
