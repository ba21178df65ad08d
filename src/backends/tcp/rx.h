/* SPDX-License-Identifier: MIT */
/* The stream into receives, registered memory and outcomes. */
#ifndef VIPL_TCP_RX_H
#define VIPL_TCP_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iwarp/rdmap.h"

struct tcp_conn;

/* What a message that is all there waits for, before its receive is complete. */
enum tcp_held {
    TCP_HELD_NOT,
    TCP_HELD_FOR_IMMEDIATE, /* its immediate data */
    TCP_HELD_FOR_READ /* the empty read that confirms it: a program that knows of it can disconnect at once */
};

/* Guarded by the device's lock. */
struct tcp_receiving {
    uint8_t *buffer; /* reassembly: an FPDU that is not all there, or a part of one; before: a start frame */
    size_t have;     /* bytes that are in it */
    size_t need;     /* bytes that it is to have before something can be done with them; 0: it is not used */
    size_t size;     /* bytes that there is room for */
    struct vipl_ddp ddp; /* of the FPDU that is placed directly, as if it began with what is still to come */
    /* Bytes of its payload that are still to be placed directly; 0: there is no such FPDU, or only its tail is
     * missing. */
    size_t direct;
    size_t tail;       /* bytes behind those, which go through the reassembly buffer */
    unsigned large;    /* how many smaller FPDUs may come before large ones are not expected any more */
    uint32_t send_msn; /* expected next */
    uint32_t read_msn;
    uint32_t mo;             /* bytes of the Send that is under way */
    bool drop;               /* the rest of the message under way is of no use */
    enum tcp_held held;      /* a message is all there, and */
    bool held_drop;          /* is of no use */
    bool held_write;         /* FOR_READ: an RDMA Write's immediate data, not a Send */
    bool held_has_immediate; /* FOR_READ */
    uint32_t held_bytes;
    uint32_t held_immediate;
    bool writing;       /* an RDMA Write is under way */
    bool write_refused; /* it, or the one before, was not placed */
    bool announced;     /* its end is known */
    uint64_t write_end;
    uint32_t write_bytes;    /* of the RDMA Write under way, or before */
    uint32_t response_bytes; /* of the RDMA Read Response that is under way */
    bool response_lost;      /* not all of it could be placed */
};

/* Receives what there is, up to a limit. TCP_REPLY_SENT, TCP_AWAIT_FIRST_FPDU or TCP_OPEN; the device's lock is held. */
void vipl_tcp_receive(struct tcp_conn *conn);
/* The same, by a thread that may be cancelled, where mostly nothing has come, or one short message. False: something is under way
 * already, and nothing has been done. */
bool vipl_tcp_receive_fast(struct tcp_conn *conn);

#endif
