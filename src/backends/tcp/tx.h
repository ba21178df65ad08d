/* SPDX-License-Identifier: MIT */
/* Sending: posts, and responses to the peer's RDMA Reads, go into the stream. */
#ifndef VIPL_TCP_TX_H
#define VIPL_TCP_TX_H

#include "backends/tcp/tcp.h"
#include "base/fifo.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"

struct tcp_conn;

/* An operation of this side that the peer answers by an RDMA Read Response. Responses come in the
 * order of the operations. */
struct tcp_pending {
    uint32_t sequence;
    uint32_t bytes; /* bytes to read; of an empty read, the bytes of the message that it confirms */
    uint16_t op;
    bool confirms;
};

/* An RDMA Read of the peer. This side responds to them in order. */
struct tcp_read_response {
    struct vipl_rdmap_read read;
    uint32_t msn;
};

/* Where a message goes on. */
struct tcp_cursor {
    unsigned frame; /* the number of the FPDU in the message */
    size_t byte;    /* bytes of that FPDU that are in the stream; with markers 1 if it has begun */
};

/* A copy of part of a response's payload, over which its CRCs are computed. */
struct tcp_snapshot {
    size_t offset; /* where the part begins in the response */
    size_t bytes;
    uint8_t data[TCP_SEGMENT];
};

/* The sending side of a connection. Guarded by `lock`. */
struct tcp_sending {
    struct vipl_biased lock; /* rank BACKEND_TX */
    uint32_t send_msn;       /* message number of the next Send or Immediate Data */
    uint32_t read_msn;
    /* of the post or response under way; zero: the stream is between two messages */
    struct tcp_cursor at;
    struct tcp_output *output; /* NULL: there is no output buffer */
    bool corked;               /* until the next flush the kernel may hold back what was sent */
    uint32_t post_epoch;       /* tcp_nic.poll_epoch when a post was last sent */
    uint32_t response_epoch;   /* the same when a response was last sent */
    /* the next response waits for the program's next post, and is sent along with it */
    bool piggyback;
    uint16_t op; /* VIP_CONTROL_OP_...: of the post under way */
    /* VIP_STATUS error bits: the peer refuses the rest of the post under way; 0: it does not */
    uint32_t refusal;
    bool responding;     /* the message under way is a response, not a post */
    bool response_waits; /* for room in the socket */
    bool blocked;        /* a post waits for room in the socket, or for a response */
    /* in TCP_AWAIT_FIRST_FPDU: posts wait until the peer has sent something */
    bool peer_sends_first;
    bool closed;    /* nothing more is sent on this connection */
    uint32_t reads; /* ORD: how many operations may wait for responses */
    /* NULL: no response has needed a snapshot, or there was no memory for it */
    struct tcp_snapshot *snapshot;
    struct vipl_fifo pending;   /* struct tcp_pending, at most TCP_MAX_READS */
    struct vipl_fifo responses; /* struct tcp_read_response, at most TCP_MAX_READS */
    struct tcp_pending inline_pending[4];
    struct tcp_read_response inline_responses[2];
};

/* The backend's operation post_send. Core calls it under the VI's send lock; all functions below
 * but vipl_tcp_send_short() and vipl_tcp_note_activity() run under the device's lock. */
enum vipl_posted vipl_tcp_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
/* The backend's operation send_short, also under the VI's send lock. */
bool vipl_tcp_send_short(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                         bool has_unreaped);
/* Sends an empty RDMA Write, Send or Read Request (`op`), by which the peer learns that this side
 * is ready to receive. It is the first FPDU of this side; later ones are RDMA Writes. Sends nothing
 * if something else is under way. */
void vipl_tcp_send_empty(struct tcp_conn *conn, uint8_t op);

/* What a Terminate is about. A member that is NULL is not sent along. */
struct tcp_terminate_about {
    const struct vipl_ddp *ddp;
    /* the header's first two bytes as they were received, if they are wrong */
    const uint8_t *control;
    const struct vipl_rdmap_read *read;
};
void vipl_tcp_terminate(struct tcp_conn *conn, uint16_t reason, const struct tcp_terminate_about *about);
/* The peer has ended the stream by a Terminate. Nothing more is sent, and one operation ends with
 * the status that the reason means for it: the oldest one to which the peer has not responded or,
 * if there is none, a post of which only a part is in the stream. */
void vipl_tcp_terminated(struct tcp_conn *conn, uint16_t reason);

/* Copies the oldest operation that waits for a response of the peer. Returns false if
 * there is none. */
bool vipl_tcp_oldest_pending(struct tcp_conn *conn, struct tcp_pending *out);
/* The response to the oldest such operation has come: ends the operation with this status, and
 * resumes a post that waited for its place. */
void vipl_tcp_end_pending(struct tcp_conn *conn, const struct tcp_pending *p, uint32_t status);

/* The reason to send in a Terminate for memory that the peer may not write (or read). The VI's
 * receive lock is held as well. */
uint16_t vipl_tcp_memory_reason(struct tcp_conn *conn, bool write, uint32_t stag, uint64_t offset,
                                uint64_t bytes);
/* Queues a response, and sends what can be sent. Returns false if more responses are queued
 * than were agreed. */
bool vipl_tcp_respond(struct tcp_conn *conn, const struct tcp_read_response *response);
/* Called before each send, under any lock of this backend. After a pause it wakes a sleeping
 * thread, which then looks for hosts that do not acknowledge. */
void vipl_tcp_note_activity(struct tcp_nic *nic);
/* Whether a post or a response waits for room in the socket, or for its turn. */
bool vipl_tcp_is_waiting(struct tcp_conn *conn);
/* The backend's operation is_answering, under the VI's send lock. */
bool vipl_tcp_is_answering(struct vipl_be_nic *be, struct vipl_vi *vi);
/* The socket may have room again, or the peer's first FPDU has come: goes on with responses,
 * then with posts. */
void vipl_tcp_resume(struct tcp_conn *conn);

#endif
