/* SPDX-License-Identifier: MIT */
/*
 * A message in the stream: a row of FPDUs whose contents follow from the message alone: for a long RDMA Write its end, then
 * data, then Immediate Data, then, where the sender is to learn that it was placed, an empty RDMA Read. A cursor (tx.h) names
 * the FPDU that comes next, and how many of its bytes are in the stream already: a message that a full socket did not take
 * whole goes on there. The connection's tx.lock is held.
 */
#ifndef VIPL_TCP_MESSAGE_H
#define VIPL_TCP_MESSAGE_H

#include "backends/tcp/conn.h"

enum {
    TCP_FRAMES = 16, /* FPDUs in a system call, at most */
    TCP_HEAD =
        VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_MAX_TERMINATE_BYTES, /* the longest */
    TCP_TRAIL = 3 + VIPL_MPA_CRC_BYTES,
    TCP_FEW_FRAMES =
        3, /* data, Immediate Data and a confirmation, for which there is room on the stack of a signal handler */
    /* of an FPDU the head, the trailer, and the end of a piece that began in the one before */
    TCP_PIECES = VIPL_MAX_SEGMENTS + 3 * TCP_FRAMES,
    TCP_FEW_PIECES = VIPL_FEW_SEGMENTS + 3 * TCP_FEW_FRAMES,
    TCP_SHORT = 1400, /* bytes of a message that is plain */
    TCP_SHORT_FPDU = TCP_SHORT + TCP_HEAD + TCP_TRAIL
};

/* One FPDU: a head, a part of the program's memory, a trailer. */
struct tcp_frame {
    uint8_t head[TCP_HEAD];
    size_t head_bytes;
    size_t payload;
    size_t offset;       /* of the payload, in the message's memory */
    const uint8_t *copy; /* of the payload; NULL: it goes from the message's memory */
    uint8_t trail[TCP_TRAIL];
    size_t trail_bytes;
};

/* What goes out by one system call. */
struct tcp_batch {
    unsigned count;
    size_t bytes;
    bool fault; /* memory of the program's is not there */
    unsigned frames;
    unsigned max_frames;
    struct vipl_iov *pieces;
    struct tcp_frame *frame;
};

/* Room for one: of few pieces, or of any message. */
struct tcp_few {
    struct tcp_batch batch;
    struct vipl_iov pieces[TCP_FEW_PIECES];
    struct tcp_frame frame[TCP_FEW_FRAMES];
};
struct tcp_many {
    struct tcp_batch batch;
    struct vipl_iov pieces[TCP_PIECES];
    struct tcp_frame frame[TCP_FRAMES];
};

/* What goes into the stream as one row of FPDUs: a post, or the response to an RDMA Read of the peer's. */
struct tcp_message {
    const struct vipl_send *send;       /* NULL: a response */
    const struct vipl_rdmap_read *read; /* what it responds to */
    const struct vipl_sg *memory;
    unsigned frames;
};

/* A cursor is within a message. */
static inline bool vipl_tcp_is_begun(const struct tcp_cursor *at)
{
    return at->frame > 0 || at->byte > 0;
}

/* Whether the peer is to confirm it. */
bool vipl_tcp_confirms(const struct tcp_conn *conn, const struct vipl_send *send);
/* How many FPDUs so many bytes of payload take; and all of a post. */
unsigned vipl_tcp_data_frames(const struct tcp_conn *conn, size_t bytes);
unsigned vipl_tcp_all_frames(const struct tcp_conn *conn, const struct vipl_send *send);

/* An empty batch for parts of the message: the caller's room, if that suffices. NULL: no memory. */
struct tcp_batch *vipl_tcp_batch_begin(struct tcp_few *few, struct tcp_nic *nic, const struct tcp_message *m);
void vipl_tcp_batch_end(struct tcp_few *few, struct tcp_nic *nic, struct tcp_batch *batch);
struct tcp_batch *vipl_tcp_batch_of(struct tcp_few *few); /* an empty one in that room */
/* What comes next of the message, from the cursor of the connection on. */
void vipl_tcp_fill_batch(struct tcp_batch *batch, const struct tcp_conn *conn, const struct tcp_message *m);
/* As much of the message as the socket takes. 0: all; EAGAIN: not all; EFAULT: the rest is not there. */
int vipl_tcp_push(struct tcp_conn *conn, const struct tcp_message *m, bool more);

/* A batch of one FPDU without payload: its header, and what else there is. */
void vipl_tcp_begin_small(struct tcp_batch *batch, const struct vipl_ddp *ddp, const uint8_t *more,
                          size_t more_bytes);
struct vipl_ddp vipl_tcp_read_request_header(uint32_t msn);
void vipl_tcp_begin_read_request(struct tcp_batch *batch, uint32_t msn, const struct vipl_rdmap_read *read);
/* Sends such a batch, and moves the cursor. 0: all of it went; EAGAIN: there is no room for the rest. */
int vipl_tcp_emit_small(struct tcp_conn *conn, struct tcp_batch *batch, struct tcp_cursor *at);

/* A message is plain if it is one short FPDU to a VIPL peer, and the peer is not to confirm it. */
bool vipl_tcp_is_short(const struct tcp_conn *conn, const struct vipl_send *send);
/* It, as it goes into the stream: TCP_SHORT_FPDU bytes at most. 0: not all of its memory is there. */
size_t vipl_tcp_write_short_send(uint8_t *to, const struct tcp_conn *conn, const struct vipl_send *send);
/* The same for a Send of one piece of memory, which is there. */
size_t vipl_tcp_write_short(uint8_t *to, const struct tcp_conn *conn, const void *from, size_t bytes);

#endif
