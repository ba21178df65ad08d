/* SPDX-License-Identifier: MIT */
/* Receiving: what the stream carries goes into receives, registered memory and
 * outcomes of operations. */
#ifndef VIPL_TCP_RX_H
#define VIPL_TCP_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iwarp/rdmap.h"

struct tcp_conn;

/* What a message that has arrived whole waits for, before its receive is completed. */
enum tcp_held {
    TCP_HELD_NOT,
    TCP_HELD_FOR_IMMEDIATE, /* its Immediate Data */
    /* The empty read that confirms the message. A program that learned of the message earlier could
     * disconnect before the confirmation. */
    TCP_HELD_FOR_READ
};

/* The receiving side of a connection. Guarded by the device's lock. */
struct tcp_receiving {
    /* The reassembly buffer: part of an FPDU or, before the connection is open, a start frame. */
    uint8_t *buffer;
    size_t have; /* bytes in the reassembly buffer */
    size_t need; /* bytes it must have before they can be handled; 0: the buffer is not in use */
    size_t size; /* size of the reassembly buffer */
    /* The segment that is placed directly, as if it began with its next byte. */
    struct vipl_ddp ddp;
    /* Payload bytes of that segment that are still to be placed directly; 0: no segment is placed
     * directly, or only its tail is missing. */
    size_t direct;
    size_t tail; /* payload bytes after those, which go through the reassembly buffer */
    /* smaller FPDUs that may come before large ones are not expected any more */
    unsigned expect_large;
    uint32_t send_msn; /* message number of the next Send or Immediate Data */
    uint32_t read_msn;
    uint32_t mo; /* bytes that have come of the Send under way */
    bool drop;   /* the rest of the message under way is dropped */
    /* what a whole message waits for; the held_ fields are about that message */
    enum tcp_held held;
    bool held_drop;          /* the message is dropped */
    bool held_write;         /* TCP_HELD_FOR_READ: an RDMA Write's Immediate Data, not a Send */
    bool held_has_immediate; /* TCP_HELD_FOR_READ */
    uint32_t held_bytes;
    uint32_t held_immediate;
    bool writing;       /* an RDMA Write is under way */
    bool write_refused; /* the RDMA Write under way, or else the last one, was refused */
    bool announced;     /* its end was announced, and is `write_end` */
    uint64_t write_end;
    uint32_t write_bytes;    /* bytes of the RDMA Write under way, or else of the last one */
    uint32_t response_bytes; /* bytes that have come of the RDMA Read Response under way */
    bool response_lost;      /* not all of that response could be placed */
};

/* Receives what the socket has, in at most TCP_POLL_BUDGET system calls. The state is
 * TCP_REPLY_SENT, TCP_AWAIT_FIRST_FPDU or TCP_OPEN; the device's lock is held. */
void vipl_tcp_receive(struct tcp_conn *conn);
/* The fast path of the same, called by a thread that may be cancelled: mostly nothing has come, or
 * one short message. Returns false, and does nothing, if an FPDU has come in part, or the
 * connection is not open. */
bool vipl_tcp_receive_fast(struct tcp_conn *conn);

#endif
