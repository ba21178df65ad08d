/* SPDX-License-Identifier: MIT */
/* Sending posts, and responses to RDMA Reads. */
#include "backends/tcp/tx.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/conn.h"
#include "backends/tcp/foreign.h"
#include "backends/tcp/loop.h"
#include "backends/tcp/message.h"
#include "backends/tcp/output.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum {
    MAX_RESPONSE_BYTES = 64, /* bytes of the response to an empty read */
    /* tcp_pending.op of this side's first FPDU, if that is an empty read: it ends no post */
    OP_READY_MESSAGE = 0xFFFF
};

/* Whether a post is in the stream in part. */
static bool is_partial_post(const struct tcp_sending *tx)
{
    return !tx->responding && vipl_tcp_is_begun(&tx->at);
}

static const struct tcp_pending *oldest_pending(const struct tcp_sending *tx)
{
    return vipl_fifo_at(&tx->pending, 0);
}

static const struct tcp_read_response *oldest_response(const struct tcp_sending *tx)
{
    return vipl_fifo_at(&tx->responses, 0);
}

void vipl_tcp_note_activity(struct tcp_nic *nic)
{
    if (vipl_load_relaxed(&nic->tx_active) == 0) {
        vipl_store_relaxed(&nic->tx_active, 1);
        vipl_up_wake(nic->core);
    }
}

/* The message is in the stream: counts its message numbers and, if the peer responds to it, makes
 * it a pending operation. */
static enum vipl_posted note_sent(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_sending *tx = &conn->tx;
    bool write = send->op == VIP_CONTROL_OP_RDMAWRITE;
    bool read = send->op == VIP_CONTROL_OP_RDMAREAD;
    tx->send_msn += read ? 0 : (write ? 0u : 1u) + (send->immediate ? 1u : 0u);
    send->status = 0;
    if (!read && !vipl_tcp_confirms(conn, send)) {
        return VIPL_POSTED_DONE;
    }
    tx->read_msn++;
    *(struct tcp_pending *)vipl_fifo_append(&tx->pending) =
        (struct tcp_pending){send->sequence, (uint32_t)send->local.bytes, send->op, !read};
    return VIPL_POSTED_PENDING;
}

/* Memory of the message is missing. A part that is in the stream cannot be taken back, so the
 * stream ends there, at every reliability level. */
static void fail_partial_post(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_sending *tx = &conn->tx;
    send->status = VIP_STATUS_PROTECTION_ERROR;
    if (vipl_tcp_is_begun(&tx->at)) {
        tx->closed = true;
        /* the peer then ends its half, and receiving that fails the VI */
        vipl_socket_finish(conn->fd);
    }
    tx->at = (struct tcp_cursor){0, 0};
}

/* Checks a post before its first byte goes to a foreign peer. Returns false if the peer cannot take
 * it; then send->status says why. */
static bool check_foreign_post(struct tcp_conn *conn, struct vipl_send *send)
{
    bool unread = send->op == VIP_CONTROL_OP_RDMAREAD && conn->tx.reads == 0;
    if (send->immediate || unread) {
        send->status = unread ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_FORMAT_ERROR;
        send->refused = true;
        return false;
    }
    vipl_tcp_resegment(conn);
    return true;
}

/* --- posts --- */

/* Whether an earlier post was sent in this poll epoch, and the program has not reaped it. */
static bool follows_unpolled_post(struct tcp_conn *conn, const struct vipl_send *send)
{
    uint32_t epoch = vipl_load_relaxed(&conn->nic->poll_epoch);
    bool same = conn->tx.post_epoch == epoch;
    conn->tx.post_epoch = epoch;
    return same && send->has_unreaped;
}

/* A program that posts right after a response was sent may do so again: the next response
 * waits for it. */
static void note_piggyback(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    tx->piggyback |= tx->response_epoch == vipl_load_relaxed(&conn->nic->poll_epoch);
    if (tx->output != NULL) {
        tx->output->only_response = false;
    }
}

/* Whether a message may be copied to the output buffer whole: it is short, and none of it is
 * in the stream. */
static bool fits_output(const struct tcp_conn *conn, const struct tcp_message *m)
{
    bool small = m->send->op == VIP_CONTROL_OP_RDMAREAD || m->memory->bytes <= TCP_OUTPUT_COPY_MAX;
    return small && m->frames <= TCP_SMALL_FRAMES && conn->marking == NULL && !conn->foreign &&
           !vipl_tcp_is_begun(&conn->tx.at);
}

/* Appends a message to the output buffer. */
static enum vipl_posted coalesce_batch(struct tcp_conn *conn, const struct tcp_batch *batch,
                                       struct vipl_send *send)
{
    if (batch->fault || !vipl_tcp_output_add(conn, batch->pieces, batch->count)) {
        send->status = VIP_STATUS_PROTECTION_ERROR;
        return VIPL_POSTED_DONE;
    }
    if (note_sent(conn, send) == VIPL_POSTED_DONE) {
        vipl_tcp_output_end_send(conn, send);
    }
    return VIPL_POSTED_PENDING;
}

/* Sends a post by its own system calls. `cork`: the kernel may hold back what does not fill a
 * packet, and the send is not complete before it is uncorked. */
static enum vipl_posted push_post(struct tcp_conn *conn, const struct tcp_message *m, struct vipl_send *send,
                                  bool cork)
{
    enum vipl_posted posted;
    conn->tx.op = send->op;
    switch (vipl_tcp_push(conn, m, cork)) {
    case 0:
        posted = note_sent(conn, send);
        if (cork) {
            vipl_tcp_output_cork(conn, posted == VIPL_POSTED_DONE ? send : NULL);
        } else {
            vipl_tcp_output_uncork(conn);
        }
        return cork ? VIPL_POSTED_PENDING : posted;
    case EFAULT:
        fail_partial_post(conn, send);
        return VIPL_POSTED_DONE;
    default:
        return VIPL_POSTED_AGAIN;
    }
}

/* Sends a short message by itself. */
static enum vipl_posted send_short_message(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_sending *tx = &conn->tx;
    uint8_t fpdu[TCP_MAX_SHORT_FPDU];
    struct vipl_iov all = {fpdu, vipl_tcp_write_short_send(fpdu, conn, send)};
    size_t bytes_sent = 0;
    if (all.len == 0) {
        send->status = VIP_STATUS_PROTECTION_ERROR;
        return VIPL_POSTED_DONE;
    }
    vipl_tcp_note_activity(conn->nic);
    int error = vipl_socket_send(conn->fd, &all, 1, false, &bytes_sent);
    if (bytes_sent == all.len) {
        return note_sent(conn, send);
    }
    tx->op = send->op;
    tx->at.byte = bytes_sent;                    /* the rest is sent as that of any message */
    tx->closed |= error != 0 && error != EAGAIN; /* as in vipl_tcp_push() */
    return VIPL_POSTED_AGAIN;
}

static enum vipl_posted coalesce_short(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_output *output = conn->tx.output;
    size_t bytes = vipl_tcp_write_short_send(output->data + output->bytes, conn, send);
    if (bytes == 0) {
        send->status = VIP_STATUS_PROTECTION_ERROR;
        return VIPL_POSTED_DONE;
    }
    output->bytes += bytes;
    note_sent(conn, send);
    vipl_tcp_output_end_send(conn, send);
    return VIPL_POSTED_PENDING;
}

/* Adds a message to the output buffer. Returns VIPL_POSTED_AGAIN if there is no room, or the
 * message is too long. */
static enum vipl_posted coalesce(struct tcp_conn *conn, const struct tcp_message *m, struct vipl_send *send)
{
    if (vipl_tcp_is_short(conn, send)) {
        return vipl_tcp_output_has_room(conn, TCP_MAX_SHORT_FPDU) ? coalesce_short(conn, send)
                                                                  : VIPL_POSTED_AGAIN;
    }
    struct tcp_small_batch small; /* not cleared: vipl_tcp_fill_batch() fills in what is used */
    struct tcp_batch *batch = fits_output(conn, m) ? vipl_tcp_batch_begin(&small, conn->nic, m) : NULL;
    enum vipl_posted posted = VIPL_POSTED_AGAIN;
    if (batch != NULL) {
        vipl_tcp_fill_batch(batch, conn, m);
        if (vipl_tcp_output_has_room(conn, batch->bytes)) {
            posted = coalesce_batch(conn, batch, send);
        }
        vipl_tcp_batch_end(&small, conn->nic, batch);
    }
    return posted;
}

/* Whether a message that follows another may be sent corked: it does not fill a
 * packet by itself. */
static bool may_cork(struct tcp_conn *conn, const struct tcp_message *m)
{
    return m->memory->bytes < TCP_SEGMENT && !conn->foreign && conn->marking == NULL &&
           vipl_tcp_output_has_room(conn, 0);
}

/* Sends the post, or adds it to the output buffer. *deferred: something waits for a flush. */
static enum vipl_posted send_or_coalesce(struct tcp_conn *conn, struct vipl_send *send, bool *deferred)
{
    bool follows = follows_unpolled_post(conn, send);
    note_piggyback(conn);
    if (!follows && !vipl_tcp_output_is_unsent(conn->tx.output) && vipl_tcp_is_short(conn, send)) {
        return send_short_message(conn, send);
    }
    struct tcp_message m = {.send = send, .memory = &send->local, .frames = vipl_tcp_all_frames(conn, send)};
    enum vipl_posted posted = VIPL_POSTED_AGAIN;
    if (follows || vipl_tcp_output_is_unsent(conn->tx.output)) {
        posted = coalesce(conn, &m, send);
        *deferred = posted != VIPL_POSTED_AGAIN && (follows || !vipl_tcp_output_flush(conn));
    }
    if (posted == VIPL_POSTED_AGAIN && vipl_tcp_output_flush_before(conn)) {
        bool cork = follows && may_cork(conn, &m);
        posted = push_post(conn, &m, send, cork);
        /* also if memory of the message is missing */
        *deferred = conn->tx.corked && posted != VIPL_POSTED_AGAIN;
    }
    return posted;
}

/* Requests a flush from the service thread. If there is none, flushes at once. */
static void request_flush(struct tcp_conn *conn)
{
    if (!vipl_tcp_request_flush(conn)) {
        vipl_biased_lock(&conn->tx.lock);
        vipl_tcp_output_flush_all(conn);
        vipl_biased_unlock(&conn->tx.lock);
    }
}

enum vipl_posted vipl_tcp_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    (void)be;
    if (conn == NULL) {
        return VIPL_POSTED_AGAIN; /* the connection has just ended; core flushes the queue */
    }
    struct tcp_sending *tx = &conn->tx;
    enum vipl_posted posted = VIPL_POSTED_AGAIN;
    bool deferred = false;
    vipl_biased_lock(&tx->lock);
    bool waits = send->op == VIP_CONTROL_OP_RDMAREAD || vipl_tcp_confirms(conn, send);
    /* A response makes room, and resumes the posts; the peer's first FPDU does so too. */
    bool full = (waits && tx->pending.count == tx->reads && tx->reads > 0) || tx->peer_sends_first;
    /* without memory, the post is tried again, as with a full socket */
    bool may = !tx->closed && !tx->responding && !full &&
               (!waits || vipl_fifo_make_room(&tx->pending, TCP_MAX_READS));
    if (tx->refusal != 0) {
        send->status = tx->refusal;
        tx->closed = true;
        posted = VIPL_POSTED_DONE;
    } else if (may && conn->foreign && !vipl_tcp_is_begun(&tx->at) && !check_foreign_post(conn, send)) {
        posted = VIPL_POSTED_DONE;
    } else if (may) {
        posted = send_or_coalesce(conn, send, &deferred);
    }
    tx->blocked = posted == VIPL_POSTED_AGAIN;
    bool tx_pending = !tx->closed && ((tx->blocked && !full) || (!tx->blocked && tx->responses.count > 0));
    vipl_biased_unlock(&tx->lock);
    if (tx_pending) {
        vipl_tcp_set_tx_pending(conn);
    } else if (deferred) {
        request_flush(conn);
    }
    return posted;
}

/* Whether a short message may be sent at once: nothing else waits to be sent, and the message does
 * not belong to the output that is being collected. */
static bool may_send_short(const struct tcp_conn *conn, bool has_unreaped)
{
    const struct tcp_sending *tx = &conn->tx;
    return !tx->closed && !tx->responding && !tx->peer_sends_first && tx->refusal == 0 &&
           tx->responses.count == 0 &&
           !(has_unreaped && tx->post_epoch == vipl_load_relaxed(&conn->nic->poll_epoch)) &&
           !vipl_tcp_output_is_unsent(tx->output) && !vipl_tcp_is_begun(&tx->at);
}

/* If the socket takes only a part, vipl_tcp_post_send() sends the rest. */
static bool send_short_locked(struct tcp_conn *conn, const void *from, size_t bytes)
{
    struct tcp_sending *tx = &conn->tx;
    uint8_t fpdu[TCP_MAX_SHORT_FPDU];
    struct vipl_iov all = {fpdu, vipl_tcp_write_short(fpdu, conn, from, bytes)};
    size_t bytes_sent = 0;
    tx->post_epoch = vipl_load_relaxed(&conn->nic->poll_epoch);
    note_piggyback(conn);
    vipl_tcp_note_activity(conn->nic);
    int error = vipl_socket_send(conn->fd, &all, 1, false, &bytes_sent);
    if (VIPL_LIKELY(bytes_sent == all.len)) {
        tx->send_msn++;
        return true;
    }
    tx->op = VIP_CONTROL_OP_SENDRECV;
    tx->at.byte = bytes_sent;
    tx->closed |= error != 0 && error != EAGAIN; /* as in vipl_tcp_push() */
    return false;
}

bool vipl_tcp_send_short(struct vipl_be_nic *be, struct vipl_vi *vi, const void *from, size_t bytes,
                         bool has_unreaped)
{
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    (void)be;
    if (conn == NULL || bytes > TCP_MAX_SHORT || conn->foreign || conn->marking != NULL) {
        return false;
    }
    vipl_biased_lock_own(&conn->tx.lock);
    bool sent = may_send_short(conn, has_unreaped) && send_short_locked(conn, from, bytes);
    vipl_biased_unlock(&conn->tx.lock);
    return sent;
}

/* --- operations that wait for a response of the peer --- */

bool vipl_tcp_oldest_pending(struct tcp_conn *conn, struct tcp_pending *out)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_biased_lock(&tx->lock);
    bool any = tx->pending.count > 0;
    if (any) {
        *out = *oldest_pending(tx);
    }
    vipl_biased_unlock(&tx->lock);
    return any;
}

void vipl_tcp_end_pending(struct tcp_conn *conn, const struct tcp_pending *p, uint32_t status)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_biased_lock(&tx->lock);
    vipl_fifo_drop(&tx->pending);
    bool resume = tx->blocked;
    vipl_biased_unlock(&tx->lock);
    if (p->op != OP_READY_MESSAGE) {
        vipl_up_send_done(conn->vi, p->sequence, status, p->bytes);
    }
    if (resume) {
        vipl_up_send_resume(conn->vi);
    }
}

/* The status of the operation that a Terminate with this reason is about. */
static uint32_t terminate_status(uint16_t reason, uint16_t op, uint16_t reliability)
{
    switch (reason & 0xFF00) {
    case 0x0100: /* RDMAP: remote protection */
    case 0x1100: /* DDP: tagged buffer */
        return VIP_STATUS_RDMA_PROT_ERROR;
    case 0x1200: /* DDP: untagged buffer */
        if (op == VIP_CONTROL_OP_RDMAREAD) {
            return VIP_STATUS_TRANSPORT_ERROR;
        }
        return reliability == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0;
    default:
        return VIP_STATUS_TRANSPORT_ERROR;
    }
}

/* The same for a foreign peer, whose reason is a hint only: siw swaps the four bits of the layer
 * with those of the type. Its RDMAP protection error looks like DDP's local catastrophe, which
 * no peer sends. */
static uint32_t foreign_terminate_status(uint16_t reason, uint16_t op)
{
    uint16_t kind = reason & 0xFF00;
    bool protection = kind == (VIPL_TERM_RDMAP_INVALID_STAG & 0xFF00) ||
                      kind == (VIPL_TERM_DDP_TAGGED_STAG & 0xFF00) ||
                      kind == (VIPL_TERM_DDP_LOCAL_CATASTROPHIC & 0xFF00);
    bool rdma = op == VIP_CONTROL_OP_RDMAWRITE || op == VIP_CONTROL_OP_RDMAREAD;
    return protection && rdma ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_TRANSPORT_ERROR;
}

void vipl_tcp_terminated(struct tcp_conn *conn, uint16_t reason)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_vi_params own;
    vipl_up_vi_params(conn->vi, &own);
    vipl_biased_lock(&tx->lock);
    bool pending = tx->pending.count > 0;
    bool partial = !pending && is_partial_post(tx);
    struct tcp_pending p = pending ? *oldest_pending(tx) : (struct tcp_pending){.op = tx->op};
    uint32_t status = conn->foreign ? foreign_terminate_status(reason, p.op)
                                    : terminate_status(reason, p.op, own.reliability);
    tx->refusal = partial ? status : 0;
    /* A post that is in the stream in part stays under way: no other thread makes
     * it pending meanwhile. */
    tx->closed = true;
    vipl_biased_unlock(&tx->lock);
    if (pending) {
        vipl_tcp_end_pending(conn, &p, status);
    } else if (partial && status != 0) {
        vipl_up_send_resume(conn->vi);
    }
}

/* --- FPDUs that no post causes --- */

/* Sends a small FPDU, between two messages. Returns false if not all of it was sent. If a part was,
 * the stream ends there. */
static bool send_small(struct tcp_conn *conn, struct tcp_batch *batch)
{
    struct tcp_cursor at = {0, 0};
    bool whole = vipl_tcp_output_flush(conn) && vipl_tcp_emit_small(conn, batch, &at) == 0;
    conn->tx.closed |= vipl_tcp_is_begun(&at) && !whole;
    return whole;
}

void vipl_tcp_send_empty(struct tcp_conn *conn, uint8_t op)
{
    struct tcp_sending *tx = &conn->tx;
    struct tcp_small_batch small;
    struct tcp_batch *batch = vipl_tcp_small_batch_init(&small);
    struct vipl_ddp ddp = {.tagged = op == VIPL_RDMAP_WRITE, .last = true, .op = op, .msn = 1};
    vipl_biased_lock(&tx->lock);
    bool idle = !tx->closed && !tx->blocked && !tx->responding;
    if (idle && op == VIPL_RDMAP_READ_REQUEST) {
        vipl_tcp_begin_read_request(batch, tx->read_msn++, &(struct vipl_rdmap_read){0});
        /* the first pending operation of the connection */
        *(struct tcp_pending *)vipl_fifo_append(&tx->pending) =
            (struct tcp_pending){.op = OP_READY_MESSAGE, .confirms = true};
    } else if (idle) {
        vipl_tcp_begin_small(batch, &ddp, NULL, 0);
        tx->send_msn += op == VIPL_RDMAP_SEND ? 1 : 0;
    }
    if (idle && !send_small(conn, batch)) {
        tx->closed |= op != VIPL_RDMAP_WRITE; /* the FPDU's message number is used up */
    }
    vipl_biased_unlock(&tx->lock);
}

/* RFC 5040: a Terminate carries the headers that the error is about, unless the layer below or a
 * catastrophe is the reason. */
static void add_headers(struct vipl_rdmap_terminate *terminate, const struct tcp_terminate_about *about)
{
    if (about->ddp == NULL) {
        return;
    }
    terminate->with_ddp = true;
    terminate->ddp = *about->ddp;
    terminate->segment_bytes = (uint16_t)about->ddp->segment_bytes;
    terminate->with_control = about->control != NULL;
    if (about->control != NULL) {
        memcpy(terminate->control, about->control, sizeof(terminate->control));
    }
    terminate->with_read = about->read != NULL;
    if (about->read != NULL) {
        terminate->read = *about->read;
    }
}

void vipl_tcp_terminate(struct tcp_conn *conn, uint16_t reason, const struct tcp_terminate_about *about)
{
    struct tcp_small_batch small;
    struct tcp_batch *batch = vipl_tcp_small_batch_init(&small);
    uint8_t payload[VIPL_RDMAP_MAX_TERMINATE_BYTES];
    struct vipl_rdmap_terminate terminate = {.reason = reason};
    struct vipl_ddp ddp = {
        .last = true, .op = VIPL_RDMAP_TERMINATE, .queue = VIPL_DDP_QUEUE_TERMINATE, .msn = 1};
    add_headers(&terminate, about);
    size_t bytes = vipl_rdmap_terminate_write(payload, &terminate);
    vipl_biased_lock(&conn->tx.lock);
    if (!conn->tx.closed && !vipl_tcp_is_begun(&conn->tx.at) && !conn->tx.responding) {
        vipl_tcp_begin_small(batch, &ddp, payload, bytes);
        /* without room in the socket, the peer sees only the end of the stream */
        send_small(conn, batch);
    }
    conn->tx.closed = true;
    vipl_biased_unlock(&conn->tx.lock);
}

/* --- the peer's RDMA Reads --- */

/* The reasons for a read and for a write. For writes DDP has a code for each fault except a missing
 * right. VIPL_MEM_NO_FAULT: the memory has changed since the access was refused. */
uint16_t vipl_tcp_memory_reason(struct tcp_conn *conn, bool write, uint32_t stag, uint64_t offset,
                                uint64_t bytes)
{
    static const uint16_t reasons[][2] = {
        [VIPL_MEM_NO_FAULT] = {VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED,
                               VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED},
        [VIPL_MEM_UNKNOWN] = {VIPL_TERM_RDMAP_INVALID_STAG, VIPL_TERM_DDP_TAGGED_STAG},
        [VIPL_MEM_OTHER_TAG] = {VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED, VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED},
        [VIPL_MEM_WRAPS] = {VIPL_TERM_RDMAP_TO_WRAP, VIPL_TERM_DDP_TAGGED_WRAP},
        [VIPL_MEM_OUTSIDE] = {VIPL_TERM_RDMAP_BASE_BOUNDS, VIPL_TERM_DDP_TAGGED_BOUNDS},
        [VIPL_MEM_NO_RIGHT] = {VIPL_TERM_RDMAP_ACCESS, VIPL_TERM_RDMAP_ACCESS}};
    return reasons[vipl_up_rdma_fault(conn->vi, write, stag, offset, bytes)][write ? 1 : 0];
}

/* Sends what the socket takes of the oldest response. The receive lock and the sending lock are
 * held, so the memory stays registered. */
static int push_response(struct tcp_conn *conn, const struct vipl_rdmap_read *read)
{
    struct vipl_sg memory;
    struct tcp_message m = {
        .read = read, .memory = &memory, .frames = vipl_tcp_data_frames(conn, read->bytes)};
    vipl_sg_one(&memory, (void *)(uintptr_t)read->source_offset, read->bytes);
    return vipl_tcp_push(conn, &m, false);
}

/* The memory of the oldest response is gone, or the right to read it. If nothing of the response is
 * in the stream, the reason is sent to the peer; otherwise the stream ends. */
struct refusal {
    uint16_t reason; /* 0: nothing was refused */
    struct tcp_read_response response;
};

static void refuse_response(struct tcp_conn *conn, const struct tcp_read_response *response,
                            struct refusal *out)
{
    const struct vipl_rdmap_read *read = &response->read;
    out->reason = vipl_tcp_memory_reason(conn, false, read->source_stag, read->source_offset, read->bytes);
    out->response = *response;
    conn->tx.closed |= vipl_tcp_is_begun(&conn->tx.at);
    conn->tx.at = (struct tcp_cursor){0, 0};
    conn->tx.responding = false;
}

static void begin_response(struct tcp_conn *conn, const struct vipl_rdmap_read *read)
{
    struct tcp_sending *tx = &conn->tx;
    if (conn->foreign) {
        vipl_tcp_resegment(conn);
    }
    if (conn->crc && conn->marking == NULL && read->bytes > 0 && tx->snapshot == NULL) {
        tx->snapshot = vipl_alloc(sizeof(*tx->snapshot));
    }
    if (tx->snapshot != NULL) {
        tx->snapshot->offset = tx->snapshot->bytes = 0;
    }
}

/* Sends the oldest response. The receive lock is held: the region is looked up again
 * for each part. */
static bool respond_one(struct tcp_conn *conn, struct refusal *refusal)
{
    struct tcp_sending *tx = &conn->tx;
    const struct tcp_read_response *response = oldest_response(tx);
    const struct vipl_rdmap_read *read = &response->read;
    if (!tx->responding) {
        begin_response(conn, read);
    }
    if (read->bytes > 0 &&
        !vipl_up_rdma_allowed(conn->vi, false, read->source_stag, read->source_offset, read->bytes)) {
        refuse_response(conn, response, refusal);
        return false;
    }
    tx->responding = true;
    int error = push_response(conn, read);
    if (error == EFAULT) {
        vipl_up_rdma_refuse(conn->vi, false);
        refuse_response(conn, response, refusal);
    }
    if (error != 0) {
        return false;
    }
    tx->responding = false;
    vipl_fifo_drop(&tx->responses);
    return true;
}

/* The response to an empty read waits for the next post, with which it is sent. Returns false if it
 * must be sent now. */
static bool coalesce_response(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    const struct vipl_rdmap_read *read = &oldest_response(tx)->read;
    bool unsent = vipl_tcp_output_is_unsent(tx->output);
    tx->response_epoch = vipl_load_relaxed(&conn->nic->poll_epoch);
    if (!tx->piggyback || read->bytes > 0 || tx->responding || conn->foreign || conn->marking != NULL ||
        !vipl_tcp_output_has_room(conn, MAX_RESPONSE_BYTES)) {
        return false;
    }
    struct tcp_small_batch small; /* not cleared: vipl_tcp_fill_batch() fills in what is used */
    struct tcp_batch *batch = vipl_tcp_small_batch_init(&small);
    struct vipl_sg nothing = {.count = 0};
    struct tcp_message m = {.read = read, .memory = &nothing, .frames = 1};
    vipl_tcp_fill_batch(batch, conn, &m);
    vipl_tcp_output_add(conn, batch->pieces, batch->count);
    tx->output->only_response = !unsent;
    vipl_fifo_drop(&tx->responses);
    return true;
}

/* Sends the responses that there is room for. */
static void send_responses(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_vi *vi = conn->vi;
    struct refusal refusal = {.reason = 0};
    vipl_biased_lock(&tx->lock);
    bool any = tx->responses.count > 0;
    vipl_biased_unlock(&tx->lock);
    if (vi == NULL || !any) {
        return;
    }
    vipl_up_recv_lock(vi);
    vipl_biased_lock(&tx->lock);
    bool coalesced = false;
    bool free = true;
    while (free && tx->responses.count > 0 && !tx->closed && !is_partial_post(tx)) {
        bool coalesces = coalesce_response(conn);
        coalesced |= coalesces;
        free = coalesces || (vipl_tcp_output_flush(conn) && respond_one(conn, &refusal));
    }
    bool unsent = vipl_tcp_output_is_unsent(tx->output);
    bool wait = (tx->responding || (!free && unsent)) && !tx->closed;
    coalesced = coalesced && unsent;
    bool blocked = tx->blocked && !tx->responding;
    bool answered = tx->response_waits && !wait;
    tx->response_waits = wait;
    vipl_biased_unlock(&tx->lock);
    vipl_up_recv_unlock(vi);
    if (answered) {
        vipl_up_answered(vi);
    }
    if (coalesced && !wait) {
        request_flush(conn);
    }
    if (refusal.reason != 0) {
        struct vipl_ddp ddp = vipl_tcp_read_request_header(refusal.response.msn);
        vipl_tcp_terminate(conn, refusal.reason,
                           &(struct tcp_terminate_about){.ddp = &ddp, .read = &refusal.response.read});
    }
    if (!vipl_tcp_still_works(conn)) {
        return;
    }
    if (wait) {
        vipl_tcp_conn_watch(conn, TCP_READABLE | TCP_WRITABLE);
    } else if (blocked && refusal.reason == 0) {
        vipl_up_send_resume(vi);
        vipl_tcp_still_works(conn);
    }
}

bool vipl_tcp_respond(struct tcp_conn *conn, const struct tcp_read_response *response)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_biased_lock(&tx->lock);
    bool room = vipl_fifo_make_room(&tx->responses, TCP_MAX_READS);
    if (room) {
        *(struct tcp_read_response *)vipl_fifo_append(&tx->responses) = *response;
    }
    vipl_biased_unlock(&tx->lock);
    if (room) {
        send_responses(conn);
    }
    return room;
}

bool vipl_tcp_is_answering(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    (void)be;
    if (conn == NULL) {
        return false;
    }
    vipl_biased_lock(&conn->tx.lock);
    bool answers = !conn->tx.closed && conn->tx.responses.count > 0;
    vipl_biased_unlock(&conn->tx.lock);
    return answers;
}

bool vipl_tcp_is_waiting(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_biased_lock(&tx->lock);
    bool waits = !tx->closed && (tx->blocked || tx->responses.count > 0);
    vipl_biased_unlock(&tx->lock);
    return waits;
}

void vipl_tcp_resume(struct tcp_conn *conn)
{
    vipl_biased_lock(&conn->tx.lock);
    conn->tx.peer_sends_first = conn->tx.peer_sends_first && conn->state != TCP_OPEN;
    vipl_biased_unlock(&conn->tx.lock);
    if (vipl_tcp_output_poll(conn)) {
        vipl_tcp_conn_watch(conn, TCP_READABLE | TCP_WRITABLE);
        return;
    }
    send_responses(conn);
    if (conn->vi != NULL && !conn->broken) {
        vipl_up_send_resume(conn->vi);
        vipl_tcp_still_works(conn);
    }
}
