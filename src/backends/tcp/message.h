/* SPDX-License-Identifier: MIT */
/*
 * A message in the stream is a sequence of FPDUs that follows from the message alone. A long RDMA
 * Write has first its end (an empty segment with the offset after the last byte), then data, then
 * Immediate Data, then, if the peer must confirm that the message was placed, an empty RDMA Read. A
 * cursor (tx.h) names the next FPDU, and how many of its bytes are in the stream already: a message
 * of which a full socket took only a part goes on there. The connection's tx.lock is held in all
 * functions here.
 */
#ifndef VIPL_TCP_MESSAGE_H
#define VIPL_TCP_MESSAGE_H

#include "backends/tcp/conn.h"

enum {
    TCP_MAX_FRAMES = 16, /* FPDUs per system call */
    /* The longest head of an FPDU: that of a Terminate. */
    TCP_MAX_HEAD = VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_MAX_TERMINATE_BYTES,
    TCP_MAX_TRAILER = 3 + VIPL_MPA_CRC_BYTES,
    /* Data, Immediate Data and a confirmation: what the stack of a signal handler has room for. */
    TCP_SMALL_FRAMES = 3,
    /* An FPDU adds its head, its trailer, and the end of a piece that began in the FPDU before. */
    TCP_MAX_PIECES = VIPL_MAX_SEGMENTS + 3 * TCP_MAX_FRAMES,
    TCP_SMALL_PIECES = VIPL_FEW_SEGMENTS + 3 * TCP_SMALL_FRAMES,
    TCP_MAX_SHORT = 1400, /* payload bytes of a short message */
    TCP_MAX_SHORT_FPDU = TCP_MAX_SHORT + TCP_MAX_HEAD + TCP_MAX_TRAILER
};

/* One FPDU: a head, part of the message's memory, a trailer. */
struct tcp_frame {
    uint8_t head[TCP_MAX_HEAD];
    size_t head_bytes;
    size_t payload;
    size_t offset;       /* where the payload begins in the message's memory */
    const uint8_t *copy; /* a copy of the payload; NULL: it is sent from the message's memory */
    uint8_t trail[TCP_MAX_TRAILER];
    size_t trail_bytes;
};

/* What one system call sends: FPDUs, and the pieces of memory that they are in. */
struct tcp_batch {
    unsigned count;
    size_t bytes;
    bool fault; /* memory of the program is missing */
    unsigned frames;
    unsigned max_frames;
    struct vipl_iov *pieces;
    struct tcp_frame *frame;
};

/* A batch with its arrays: for few pieces, on a stack; for any message, from the heap. */
struct tcp_small_batch {
    struct tcp_batch batch;
    struct vipl_iov pieces[TCP_SMALL_PIECES];
    struct tcp_frame frame[TCP_SMALL_FRAMES];
};
struct tcp_large_batch {
    struct tcp_batch batch;
    struct vipl_iov pieces[TCP_MAX_PIECES];
    struct tcp_frame frame[TCP_MAX_FRAMES];
};

/* A message: a post, or the response to an RDMA Read of the peer. */
struct tcp_message {
    const struct vipl_send *send;       /* NULL: a response */
    const struct vipl_rdmap_read *read; /* the RDMA Read that a response is for; NULL: a post */
    const struct vipl_sg *memory;
    unsigned frames;
};

/* Whether the cursor is in the middle of a message. */
static inline bool vipl_tcp_is_begun(const struct tcp_cursor *at)
{
    return at->frame > 0 || at->byte > 0;
}

/* Whether the peer is asked to confirm the send, by an empty RDMA Read. */
bool vipl_tcp_confirms(const struct tcp_conn *conn, const struct vipl_send *send);
/* How many FPDUs `bytes` bytes of payload take; how many FPDUs a post takes. */
unsigned vipl_tcp_data_frames(const struct tcp_conn *conn, size_t bytes);
unsigned vipl_tcp_all_frames(const struct tcp_conn *conn, const struct vipl_send *send);

/* Returns an empty batch for parts of the message: `small`, if the message fits into it, else one
 * from the heap. NULL: there is no memory. vipl_tcp_batch_end() gives the batch back. */
struct tcp_batch *vipl_tcp_batch_begin(struct tcp_small_batch *small, struct tcp_nic *nic,
                                       const struct tcp_message *m);
void vipl_tcp_batch_end(struct tcp_small_batch *small, struct tcp_nic *nic, struct tcp_batch *batch);
/* the batch of `small`, empty */
struct tcp_batch *vipl_tcp_small_batch_init(struct tcp_small_batch *small);
/* Fills the batch with what comes next of the message, from the connection's cursor on. */
void vipl_tcp_fill_batch(struct tcp_batch *batch, const struct tcp_conn *conn, const struct tcp_message *m);
/* Sends what the socket takes of the message, and moves the connection's cursor. `more`: the kernel
 * may hold back what does not fill a packet. Returns 0 if all was sent, EAGAIN if not, EFAULT if
 * the next memory of the message is missing. */
int vipl_tcp_push(struct tcp_conn *conn, const struct tcp_message *m, bool more);

/* Begins a batch of one FPDU without payload: its header, and `more` after it. */
void vipl_tcp_begin_small(struct tcp_batch *batch, const struct vipl_ddp *ddp, const uint8_t *more,
                          size_t more_bytes);
struct vipl_ddp vipl_tcp_read_request_header(uint32_t msn);
void vipl_tcp_begin_read_request(struct tcp_batch *batch, uint32_t msn, const struct vipl_rdmap_read *read);
/* Sends such a batch, and moves the cursor `at`. Returns 0 if all was sent, EAGAIN if the socket
 * has no room for the rest. */
int vipl_tcp_emit_small(struct tcp_conn *conn, struct tcp_batch *batch, struct tcp_cursor *at);

/* A message is short if it is one short FPDU to a VIPL peer that is not asked to confirm it. */
bool vipl_tcp_is_short(const struct tcp_conn *conn, const struct vipl_send *send);
/* Writes the FPDU of a short message, at most TCP_MAX_SHORT_FPDU bytes. Returns its bytes; 0: some
 * of the message's memory is missing. */
size_t vipl_tcp_write_short_send(uint8_t *to, const struct tcp_conn *conn, const struct vipl_send *send);
/* The same for a Send of one piece of memory, which is known to exist. */
size_t vipl_tcp_write_short(uint8_t *to, const struct tcp_conn *conn, const void *from, size_t bytes);

#endif
