/* SPDX-License-Identifier: MIT */
/*
 * What leaves together. A message goes at once. Those that a program posts behind it, before it has reaped it, and before anybody has
 * looked at the device again (tcp_nic.poll_epoch), are collected, and leave by one system call: at the next look, before the next sleep,
 * when there is no more room, or when the service thread comes, which is asked to. An answer to the peer is collected too,
 * where the program has posted something right behind the last one: so it takes this one along.
 *
 * Longer messages (TCP_OUTPUT_COPY_MAX) are not copied. They are sent by a call each, but as a part of the burst: the system may keep what
 * does not fill a packet, and puts the next message behind it. At the burst's end it is told to send all.
 *
 * A send is complete when the system has its last byte and does not keep it, never before; core is told so at the next look.
 */
#ifndef VIPL_TCP_OUTPUT_H
#define VIPL_TCP_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/iov.h"

struct tcp_conn;
struct vipl_send;

enum {
    TCP_OUTPUT_BYTES = 11 * 1024,
    TCP_OUTPUT_SENDS = 256, /* a power of two */
    TCP_OUTPUT_COPY_MAX =
        1400 /* bytes of a message, at most: a longer one is worth a system call, and the kernel looks at its memory */
};

/* A send that is complete once it has left. */
struct tcp_output_send {
    uint32_t sequence;
    uint16_t end;    /* of its last byte in `data` */
    uint16_t length; /* of its payload */
};

/* Guarded by the connection's tx.lock. */
struct tcp_output {
    size_t bytes;   /* in `data` */
    size_t flushed; /* of those, as many as the socket has taken */
    /* running numbers: reported <= sent <= sends */
    uint32_t sends;
    uint32_t sent;      /* which the socket has taken, to the last byte */
    uint32_t reported;  /* which core knows to be complete */
    bool only_response; /* nothing but a response to the peer is in it */
    struct tcp_output_send send[TCP_OUTPUT_SENDS];
    uint8_t data[TCP_OUTPUT_BYTES];
};

/* tx.lock is held, here and below. Whether so many bytes can be put into the burst, of a message that may be the next. */
bool vipl_tcp_output_has_room(struct tcp_conn *conn, size_t bytes);
/* Puts them there. False: not all of the memory is there, and nothing has happened. */
bool vipl_tcp_output_add(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count);
/* What was added last ends a send, which is complete once it has left. */
void vipl_tcp_output_end_send(struct tcp_conn *conn, const struct vipl_send *send);
/* Whether something in it has not left yet. */
static inline bool vipl_tcp_output_is_unsent(const struct tcp_output *output)
{
    return output != NULL && output->bytes > 0;
}
/* As much of it as the socket takes. True: nothing is left of it, the stream is between two messages. */
bool vipl_tcp_output_flush(struct tcp_conn *conn);
/* The same, and a message follows at once: an answer alone may stay with the system until then. */
bool vipl_tcp_output_flush_before(struct tcp_conn *conn);
/* Something was sent that pushes what the system kept. */
void vipl_tcp_output_uncork(struct tcp_conn *conn);
/* A message that was sent by itself, while nothing is collected, belongs to the burst all the same: the system may keep its end. The
 * send is complete when that is pushed; NULL: when the peer says so. There is room for one more. */
void vipl_tcp_output_cork(struct tcp_conn *conn, const struct vipl_send *send);
/* All of it leaves, as far as the socket takes it: what is collected, and what the system keeps. True as above. */
bool vipl_tcp_output_flush_all(struct tcp_conn *conn);

/* A look, for the device's lock is held, and no other: what there is leaves, and core is told. True: the socket has no room for
 * the rest. */
bool vipl_tcp_output_poll(struct tcp_conn *conn);

#endif
