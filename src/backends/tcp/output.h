/* SPDX-License-Identifier: MIT */
/*
 * Output coalescing. A message is sent at once, unless the program posts it before it has reaped
 * the previous one and before any thread has polled the device (tcp_nic.poll_epoch). Such a message
 * goes to an output buffer, which one system call flushes: at the next poll, before a sleep, when
 * the buffer is full, or by the service thread, from which a flush is requested. A response that
 * confirms a message goes to the buffer too if the program is expected to post right after it
 * (tcp_sending.piggyback).
 *
 * A message of more than TCP_OUTPUT_COPY_MAX bytes is not copied. It is sent by a system call of
 * its own, with MSG_MORE: the kernel may hold back what does not fill a packet, and puts the next
 * message after it. The connection is then corked, and the next flush uncorks it.
 *
 * A send is complete when the kernel has its last byte and does not hold it back. Core learns that
 * at the next poll.
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
    TCP_OUTPUT_SENDS = 256, /* a power of two: the running numbers wrap */
    /* A longer message is worth a system call of its own, for which the kernel reads its memory. */
    TCP_OUTPUT_COPY_MAX = 1400
};

/* A send whose bytes are in the buffer, or held back by the kernel. */
struct tcp_output_send {
    uint32_t sequence;
    uint16_t end;    /* where its last byte ends in `data` */
    uint16_t length; /* bytes of its payload */
};

/* Guarded by the connection's tx.lock. */
struct tcp_output {
    size_t bytes;   /* bytes in `data` */
    size_t flushed; /* those of them that the socket has taken */
    /* Numbers of sends, which run on and wrap: reported <= sent <= sends. */
    uint32_t sends;
    uint32_t sent;      /* sends that the kernel has to the last byte, and does not hold back */
    uint32_t reported;  /* sends that core knows to be complete */
    bool only_response; /* the buffer has nothing but a response */
    struct tcp_output_send send[TCP_OUTPUT_SENDS];
    uint8_t data[TCP_OUTPUT_BYTES];
};

/* The functions from here to vipl_tcp_output_flush_all() run under tx.lock. This one makes the
 * buffer if there is none, flushes it if it is too full, and returns whether `bytes` more bytes and
 * one more send fit into it. */
bool vipl_tcp_output_has_room(struct tcp_conn *conn, size_t bytes);
/* Appends the pieces, which must fit. Returns false, and changes nothing, if some of their
 * memory is missing. */
bool vipl_tcp_output_add(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count);
/* The bytes appended last are the end of `send`, which is complete once they are sent. */
void vipl_tcp_output_end_send(struct tcp_conn *conn, const struct vipl_send *send);
/* Whether the buffer has bytes that the socket has not taken. */
static inline bool vipl_tcp_output_is_unsent(const struct tcp_output *output)
{
    return output != NULL && output->bytes > 0;
}
/* Sends what the socket takes of the buffer. Returns true if nothing is left: the stream is
 * between two messages. */
bool vipl_tcp_output_flush(struct tcp_conn *conn);
/* The same, when a message follows at once: a buffer that has no more than a response is
 * sent with MSG_MORE. */
bool vipl_tcp_output_flush_before(struct tcp_conn *conn);
/* The caller has sent bytes without MSG_MORE: the kernel holds nothing back any more. */
void vipl_tcp_output_uncork(struct tcp_conn *conn);
/* A message was sent with MSG_MORE while the buffer was empty: the kernel may hold back its end.
 * `send` is complete when the connection is uncorked; NULL: when the peer confirms it. The caller
 * has made sure of room for one send. */
void vipl_tcp_output_cork(struct tcp_conn *conn, const struct vipl_send *send);
/* Sends what the socket takes of the buffer, and uncorks the connection. Returns
 * as vipl_tcp_output_flush() does. */
bool vipl_tcp_output_flush_all(struct tcp_conn *conn);

/* Part of a poll: sends everything, and reports complete sends to core. The device's lock is held,
 * and no other. Returns true if the socket has no room for the rest. */
bool vipl_tcp_output_poll(struct tcp_conn *conn);

#endif
