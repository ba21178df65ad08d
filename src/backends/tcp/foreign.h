/* SPDX-License-Identifier: MIT */
/* FPDUs for foreign peers: they fit TCP's segments, with markers for peers that want them. The sending lock is
 * held, but by vipl_tcp_start_marking(). */
#ifndef VIPL_TCP_FOREIGN_H
#define VIPL_TCP_FOREIGN_H

#include "backends/tcp/conn.h"

/* A stream with markers: one FPDU at a time, marked, until the kernel has it. Guarded by the sending lock. */
struct tcp_marking {
    uint32_t position; /* in the stream, modulo their spacing */
    size_t have;       /* bytes of the FPDU that is under way */
    size_t sent;       /* those of them that the kernel has */
    uint32_t most;     /* payload bytes of a segment that there is room for */
    uint8_t *plain;    /* room for one FPDU without markers */
    uint8_t *marked;
};

/* Sets conn->segment to what fits into a segment of TCP's. Between two messages. */
void vipl_tcp_resegment(struct tcp_conn *conn);
/* Markers from here on. False: there is no memory for them. */
bool vipl_tcp_start_marking(struct tcp_conn *conn);
/* Sends whole FPDUs with markers, the first of which may have begun, and moves the cursor. 0: all of them are
 * sent; else why not. */
int vipl_tcp_send_marked(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count,
                         struct tcp_cursor *at);

#endif
