/* SPDX-License-Identifier: MIT */
/* FPDUs for foreign peers: each fits a TCP segment, and has markers for a peer that wants them. The
 * sending lock is held, except in vipl_tcp_start_marking(). */
#ifndef VIPL_TCP_FOREIGN_H
#define VIPL_TCP_FOREIGN_H

#include "backends/tcp/conn.h"

/* A stream with markers. It sends one FPDU at a time, which stays here until the kernel has it.
 * Guarded by the sending lock. */
struct tcp_marking {
    uint32_t position;    /* of the stream, modulo the spacing of markers */
    size_t have;          /* bytes of the FPDU under way */
    size_t sent;          /* bytes of it that the kernel has */
    uint32_t max_payload; /* payload bytes of the longest segment that fits here */
    uint8_t *plain;       /* one FPDU without markers */
    uint8_t *marked;
};

/* Sets conn->segment to what fits a TCP segment now. The stream is between two messages. */
void vipl_tcp_resegment(struct tcp_conn *conn);
/* The stream has markers from here on. Returns false if there is no memory for them. */
bool vipl_tcp_start_marking(struct tcp_conn *conn);
/* Sends whole FPDUs with markers, the first of which may be in the stream in part, and moves the
 * cursor. Returns 0 if all of them are sent, else an errno value. */
int vipl_tcp_send_marked(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count,
                         struct tcp_cursor *at);

#endif
