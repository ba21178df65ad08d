/* SPDX-License-Identifier: MIT */
/* Posts and responses to RDMA Reads, into the stream. */
#ifndef VIPL_TCP_TX_H
#define VIPL_TCP_TX_H

#include "backends/tcp/tcp.h"
#include "base/fifo.h"
#include "iwarp/mpa.h"
#include "iwarp/rdmap.h"

struct tcp_conn;

/* An operation of ours to which the peer responds, by an RDMA Read Response, in order. */
struct tcp_pending {
    uint32_t sequence;
    uint32_t bytes; /* to read, or those of the message that an empty read confirms */
    uint16_t op;
    bool confirms;
};

/* An RDMA Read of the peer's, to which we respond in order. */
struct tcp_read_response {
    struct vipl_rdmap_read read;
    uint32_t msn;
};

/* What of a message comes next. */
struct tcp_cursor {
    unsigned frame; /* its FPDU */
    size_t byte;    /* bytes of that FPDU that are in the stream; with markers 1: it has begun */
};

/* A part of a response's payload, as its CRCs have it. */
struct tcp_snapshot {
    size_t offset; /* in the response */
    size_t bytes;
    uint8_t data[TCP_SEGMENT];
};

/* Guarded by `lock`. */
struct tcp_sending {
    struct vipl_biased lock; /* rank BACKEND_TX */
    uint32_t send_msn;       /* for the next Send, or Immediate Data */
    uint32_t read_msn;
    struct tcp_cursor at; /* of the post or response under way; zero: the stream is between two messages */
    struct tcp_output *output; /* NULL: nothing is collected */
    bool corked;               /* the system may keep something that was sent, until it is pushed */
    uint32_t post_epoch;       /* tcp_nic.poll_epoch when a post was last sent */
    uint32_t response_epoch;   /* the same of a response */
    bool piggyback;            /* the next response waits for a post that takes it along */
    uint16_t op;               /* of the post under way */
    uint32_t refusal; /* VIP_STATUS error bits: the peer will not have the rest of a post; 0: it may */
    bool responding;  /* a response is under way, no post */
    bool blocked;     /* a post waits for room */
    bool quiet;       /* TCP_AWAIT_FIRST_FPDU, and the peer is to send first */
    bool closed;      /* nothing is to be sent any more */
    uint32_t reads;   /* ORD */
    struct tcp_snapshot *snapshot; /* NULL: no response has needed one, or there was no memory for it */
    struct vipl_fifo pending;      /* struct tcp_pending; TCP_READS at most, as the next one */
    struct vipl_fifo responses;    /* struct tcp_read_response */
    struct tcp_pending few_pending[4];
    struct tcp_read_response few_responses[2];
};

/* The backend's operation; the VI's send lock is held. Else: the device's lock is held. */
enum vipl_posted vipl_tcp_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
/* The backend's operation; likewise. */
bool vipl_tcp_send_short(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                         bool has_unreaped);
/* An empty RDMA Write, Send or Read Request, by which the peer learns that we are ready to receive. Our first
 * FPDU; later RDMA Writes only. Nothing is sent while something else is under way. */
void vipl_tcp_send_empty(struct tcp_conn *conn, uint8_t op);

/* What a Terminate is about, as far as it is sent along. NULL: it is not. */
struct tcp_about {
    const struct vipl_ddp *ddp;
    const uint8_t *control; /* the header's first bytes as they came, where they are wrong */
    const struct vipl_rdmap_read *read;
};
void vipl_tcp_terminate(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about);
/* The peer has ended the stream by a Terminate: nothing more goes out, and the operation that it is about ends
 * with what the reason means for it. That is the oldest one to which the peer has not responded, or a post that
 * is half in the stream. */
void vipl_tcp_terminated(struct tcp_conn *conn, uint16_t reason);

/* The oldest operation that waits for a response of the peer's; false: there is none. */
bool vipl_tcp_oldest_pending(struct tcp_conn *conn, struct tcp_pending *out);
/* The response has come: the operation is over, and a post that waited for its place may go. */
void vipl_tcp_end_pending(struct tcp_conn *conn, const struct tcp_pending *p, uint32_t status);

/* The reason to give for memory that the peer may not write (read). The VI's receive lock is held. */
uint16_t vipl_tcp_memory_reason(struct tcp_conn *conn, bool write, uint32_t stag, uint64_t offset,
                                uint64_t bytes);
/* An RDMA Read of the peer's is to be responded to. False: more are under way than were agreed. */
bool vipl_tcp_respond(struct tcp_conn *conn, const struct tcp_read_response *response);
/* Something is sent. The first time in a while, a thread that sleeps is to look after hosts that do not acknowledge. */
void vipl_tcp_note_activity(struct tcp_nic *nic);
/* Whether a post or a response waits for room in the socket, or for its turn. */
bool vipl_tcp_is_waiting(struct tcp_conn *conn);
/* There may be room again, or the peer's first FPDU has come: responses go on, then posts. */
void vipl_tcp_resume(struct tcp_conn *conn);

#endif
