/* SPDX-License-Identifier: MIT */
/* The bytes of the handshake on the kernel's socket of a connection. No call blocks. The
 * connection's lock is held, and its socket is open. */
#ifndef VIPL_SOCKETS_HANDSHAKE_BYTES_H
#define VIPL_SOCKETS_HANDSHAKE_BYTES_H

#include "sockets/conn.h"

/* The poll() bits of the kernel's socket that hold now. */
short sock_bytes_ready(struct sock_conn *conn, short events);

enum { SOCK_NOTHING_YET = -1, SOCK_LOST = -2 };
/* Looks at what has come, without taking it. Returns the bytes; 0: the end; SOCK_NOTHING_YET; or
 * SOCK_LOST, with the error, which the kernel reports no more, in conn->error. */
int sock_bytes_look(struct sock_conn *conn, uint8_t *bytes, size_t size);
/* Takes bytes that have been looked at: SOCK_HELLO_BYTES + 1 at most. */
void sock_bytes_take(struct sock_conn *conn, size_t count);

/* These return false if not all has been sent; an error is in conn->error then. `flags`: of
 * send(). */
bool sock_bytes_put(struct sock_conn *conn, const void *bytes, size_t count, int flags);
bool sock_bytes_put_one(struct sock_conn *conn, uint8_t byte);
/* `why` is of a DECLINE. */
bool sock_bytes_put_message(struct sock_conn *conn, enum sock_hello_kind kind, enum sock_reason why);

#endif
