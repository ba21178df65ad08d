/* SPDX-License-Identifier: MIT */
/*
 * Posts and responses to RDMA Reads, into the stream. A message is a row of FPDUs whose contents follow from the message
 * alone: for a long RDMA Write its end, then data, then Immediate Data, then, where the sender is to learn that it was
 * placed, an empty RDMA Read. A cursor names the FPDU that comes next, and how many of its bytes are in the stream already:
 * a message that a full socket did not take whole goes on there.
 */
#include "backends/tcp/tx.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "backends/tcp/conn.h"
#include "backends/tcp/foreign.h"
#include "backends/tcp/loop.h"
#include "base/iov.h"
#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "os/os_atomic.h"

enum {
    FRAMES = 16, /* FPDUs in a system call, at most */
    HEAD = VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_MAX_TERMINATE_BYTES, /* the longest */
    TRAIL = 3 + VIPL_MPA_CRC_BYTES,
    PIECES = VIPL_MAX_SEGMENTS + 3 * FRAMES,
    FLAT = 1536,      /* bytes of a short batch */
    SAFE_TURN = 4096, /* bytes that are copied before their CRC is computed */
    OP_READY = 0xFFFF /* of a pending operation that is no post: our first FPDU, an empty read */
};

/* One FPDU: a head, a part of the program's memory, a trailer. */
struct frame {
    uint8_t head[HEAD];
    size_t head_bytes;
    size_t payload;
    size_t offset;       /* of the payload, in the message's memory */
    const uint8_t *copy; /* of the payload; NULL: it goes from the message's memory */
    uint8_t trail[TRAIL];
    size_t trail_bytes;
};

/* What goes out by one system call. */
struct batch {
    unsigned count;
    size_t bytes;
    bool fault; /* memory of the program's is not there */
    struct vipl_iov pieces[PIECES];
    unsigned frames;
    struct frame frame[FRAMES];
};

/* What goes into the stream as one row of FPDUs: a post, or the response to an RDMA Read of the peer's. */
struct message {
    const struct vipl_send *send;       /* NULL: a response */
    const struct vipl_rdmap_read *read; /* what it responds to */
    const struct vipl_sg *memory;
    unsigned frames;
};

static size_t frame_bytes(const struct frame *f)
{
    return f->head_bytes + f->payload + f->trail_bytes;
}

/* --- frames --- */

/* A piece's part of a CRC, when its memory may not be there (VIPL_SAFE_COPY). */
static bool add_crc_safely(uint32_t *crc, const struct vipl_iov *piece)
{
    uint8_t held[SAFE_TURN];
    bool there = true;
    for (size_t at = 0; there && at < piece->len; at += SAFE_TURN) {
        size_t n = piece->len - at < SAFE_TURN ? piece->len - at : SAFE_TURN;
        there = vipl_iov_bytes(held, (const char *)piece->base + at, n);
        *crc = there ? vipl_crc32c(*crc, held, n) : 0;
    }
    return there;
}

/* False: not all of the program's memory is there. */
static bool crc_of(const struct frame *f, const struct vipl_iov *pieces, unsigned count, uint32_t *crc)
{
    bool safe = vipl_iov_is_safe();
    bool there = true;
    *crc = vipl_crc32c(0, f->head, f->head_bytes);
    for (unsigned i = 0; there && i < count; i++) {
        if (safe) {
            there = add_crc_safely(crc, &pieces[i]);
        } else {
            *crc = vipl_crc32c(*crc, pieces[i].base, pieces[i].len);
        }
    }
    return there;
}

/* The head of an FPDU: its length field, the segment's header, and what else does not lie in the program's
 * memory. */
static void begin_frame(struct frame *f, const struct vipl_ddp *ddp, const uint8_t *more, size_t more_bytes,
                        size_t payload)
{
    size_t header = vipl_ddp_write(f->head + VIPL_MPA_HEADER_BYTES, ddp);
    assert(VIPL_MPA_HEADER_BYTES + header + more_bytes <= HEAD);
    if (more_bytes > 0) {
        memcpy(f->head + VIPL_MPA_HEADER_BYTES + header, more, more_bytes);
    }
    f->head_bytes = VIPL_MPA_HEADER_BYTES + header + more_bytes;
    f->payload = payload;
    f->copy = NULL;
    vipl_put16(f->head, (uint16_t)(header + more_bytes + payload));
}

static bool end_frame(struct frame *f, bool crc, const struct vipl_iov *pieces, unsigned count)
{
    size_t ulpdu = f->head_bytes - VIPL_MPA_HEADER_BYTES + f->payload;
    uint32_t sum = 0;
    bool there = !crc || crc_of(f, pieces, count, &sum);
    f->trail_bytes = vipl_mpa_trailer_write(f->trail, ulpdu, sum, crc);
    return there;
}

static void clear_batch(struct batch *batch)
{
    batch->count = batch->frames = 0;
    batch->bytes = 0;
    batch->fault = false;
}

/* Puts a begun frame into the batch, without its first `skip` bytes. `sg` NULL: it has no payload. */
static void add_frame(struct batch *batch, const struct tcp_conn *conn, const struct vipl_sg *sg, size_t skip)
{
    struct frame *f = &batch->frame[batch->frames++];
    struct vipl_iov *pieces = &batch->pieces[batch->count];
    pieces[0] = (struct vipl_iov){f->head, f->head_bytes};
    unsigned n = 1;
    if (f->copy != NULL) {
        pieces[n++] = (struct vipl_iov){(void *)(uintptr_t)f->copy, f->payload};
    } else if (f->payload > 0) {
        n += vipl_iov_slice(pieces + 1, sg, f->offset, f->payload);
    }
    batch->fault |= !end_frame(f, conn->crc, pieces + 1, n - 1);
    pieces[n++] = (struct vipl_iov){f->trail, f->trail_bytes};
    batch->bytes += frame_bytes(f) - skip;
    batch->count += n;
    for (unsigned i = 0; skip > 0; i++) { /* only a batch's first frame has been begun */
        size_t less = pieces[i].len < skip ? pieces[i].len : skip;
        pieces[i].base = (char *)pieces[i].base + less;
        pieces[i].len -= less;
        skip -= less;
    }
}

static struct vipl_ddp read_request_header(uint32_t msn)
{
    return (struct vipl_ddp){.last = true,
                             .op = VIPL_RDMAP_READ_REQUEST,
                             .queue = VIPL_DDP_QUEUE_READ_REQUEST,
                             .msn = msn,
                             .segment_bytes = VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_READ_REQUEST_BYTES};
}

static void put_read_request(struct frame *f, uint32_t msn, const struct vipl_rdmap_read *read)
{
    uint8_t payload[VIPL_RDMAP_READ_REQUEST_BYTES];
    struct vipl_ddp ddp = read_request_header(msn);
    vipl_rdmap_read_write(payload, read);
    begin_frame(f, &ddp, payload, sizeof(payload), 0);
}

/* --- a message --- */

static bool confirms(const struct tcp_conn *conn, const struct vipl_send *send)
{
    if (conn->tx.reads == 0) {
        return false; /* a foreign peer that takes no reads */
    }
    return send->op == VIP_CONTROL_OP_RDMAWRITE ? send->reliability != VIP_SERVICE_UNRELIABLE
                                                : send->reliability == VIP_SERVICE_RELIABLE_RECEPTION;
}

/* An RDMA Write in many segments to a VIPL peer begins with an empty one whose offset is the end of them all:
 * the peer checks the whole before it places a byte. */
static bool announces(const struct tcp_conn *conn, const struct vipl_send *send)
{
    return send->op == VIP_CONTROL_OP_RDMAWRITE && send->local.bytes > conn->segment && !conn->foreign;
}

/* How many FPDUs so many bytes of payload take. */
static unsigned data_frames(const struct tcp_conn *conn, size_t bytes)
{
    return bytes <= conn->segment ? 1 : (unsigned)((bytes + conn->segment - 1) / conn->segment);
}

static unsigned all_frames(const struct tcp_conn *conn, const struct vipl_send *send)
{
    if (send->op == VIP_CONTROL_OP_RDMAREAD) {
        return 1;
    }
    return (announces(conn, send) ? 1u : 0u) + data_frames(conn, send->local.bytes) +
           (send->immediate ? 1u : 0u) + (confirms(conn, send) ? 1u : 0u);
}

/* The header of a message's data, as that of its first byte. */
static struct vipl_ddp data_header(const struct tcp_conn *conn, const struct message *m)
{
    const struct vipl_send *send = m->send;
    struct vipl_ddp ddp = {.tagged = true};
    if (send == NULL) {
        ddp.op = VIPL_RDMAP_READ_RESPONSE;
        ddp.stag = m->read->sink_stag;
        ddp.offset = m->read->sink_offset;
    } else if (send->op == VIP_CONTROL_OP_RDMAWRITE) {
        ddp.op = VIPL_RDMAP_WRITE;
        ddp.stag = send->remote_handle;
        ddp.offset = send->remote_address;
    } else {
        ddp.tagged = false;
        ddp.op = send->immediate ? VIPL_RDMAP_SEND_SE : VIPL_RDMAP_SEND;
        ddp.queue = VIPL_DDP_QUEUE_SEND;
        ddp.msn = conn->tx.send_msn;
    }
    return ddp;
}

static void put_data(struct frame *f, const struct tcp_conn *conn, const struct message *m, unsigned i)
{
    struct vipl_ddp ddp = data_header(conn, m);
    f->offset = (size_t)i * conn->segment;
    size_t left = m->memory->bytes - f->offset;
    ddp.last = left <= conn->segment;
    if (ddp.tagged) {
        ddp.offset += f->offset;
    } else {
        ddp.mo = (uint32_t)f->offset;
    }
    begin_frame(f, &ddp, NULL, 0, ddp.last ? left : conn->segment);
}

static void put_immediate(struct frame *f, const struct tcp_conn *conn, const struct vipl_send *send)
{
    uint8_t payload[VIPL_RDMAP_IMMEDIATE_BYTES];
    uint32_t before = send->op == VIP_CONTROL_OP_RDMAWRITE ? 0 : 1; /* the Send has a number of its own */
    struct vipl_ddp ddp = {.last = true,
                           .op = VIPL_RDMAP_IMMEDIATE,
                           .queue = VIPL_DDP_QUEUE_SEND,
                           .msn = conn->tx.send_msn + before};
    vipl_rdmap_immediate_write(payload, send->immediate_data);
    begin_frame(f, &ddp, payload, sizeof(payload), 0);
}

/* The i-th FPDU of a message, but for its trailer. */
static void put_frame(struct frame *f, const struct tcp_conn *conn, const struct message *m, unsigned i)
{
    const struct vipl_send *send = m->send;
    if (send == NULL) {
        put_data(f, conn, m, i);
        return;
    }
    unsigned data = data_frames(conn, send->local.bytes);
    struct vipl_rdmap_read read = {.sink_stag = send->sequence}; /* empty: it confirms the message */
    if (announces(conn, send) && i-- == 0) {
        struct vipl_ddp end = data_header(conn, m);
        end.offset += send->local.bytes;
        begin_frame(f, &end, NULL, 0, 0);
    } else if (send->op == VIP_CONTROL_OP_RDMAREAD) {
        read.bytes = (uint32_t)send->local.bytes;
        read.source_stag = send->remote_handle;
        read.source_offset = send->remote_address;
        put_read_request(f, conn->tx.read_msn, &read);
    } else if (i < data) {
        put_data(f, conn, m, i);
    } else if (i == data && send->immediate) {
        put_immediate(f, conn, send);
    } else {
        put_read_request(f, conn->tx.read_msn, &read);
    }
}

/* --- the stream --- */

static bool is_begun(const struct tcp_cursor *at)
{
    return at->frame > 0 || at->byte > 0;
}

/* A post is half in the stream. */
static bool is_mid_post(const struct tcp_sending *tx)
{
    return !tx->responding && is_begun(&tx->at);
}

/* The memory that a peer reads may change until the socket has taken all of it, and the CRC would be that of the
 * old contents. So such payload is copied first, as much at a time as the snapshot has room for. False: the batch
 * is to be sent before the snapshot can have this frame's. */
static bool copy_payload(struct batch *batch, struct frame *f, const struct message *m,
                         struct tcp_snapshot *snapshot)
{
    if (f->offset + f->payload > snapshot->offset + snapshot->bytes) {
        if (batch->frames > 0) {
            return false;
        }
        size_t left = m->memory->bytes - f->offset;
        snapshot->offset = f->offset;
        snapshot->bytes = left < TCP_SEGMENT ? left : TCP_SEGMENT;
        batch->fault = !vipl_iov_gather(snapshot->data, m->memory, f->offset, snapshot->bytes);
    }
    f->copy = snapshot->data + (f->offset - snapshot->offset);
    return true;
}

/* Fills a batch with what comes next of the message. A stream with markers keeps the FPDU that has begun by
 * itself. */
static void fill_batch(struct batch *batch, const struct tcp_conn *conn, const struct message *m)
{
    const struct tcp_cursor *at = &conn->tx.at;
    size_t skip = conn->marking == NULL ? at->byte : 0;
    clear_batch(batch);
    for (unsigned i = at->frame; i < m->frames && batch->frames < FRAMES; i++) {
        struct frame *f = &batch->frame[batch->frames];
        put_frame(f, conn, m, i);
        if (m->send == NULL && conn->tx.snapshot != NULL && f->payload > 0 &&
            !copy_payload(batch, f, m, conn->tx.snapshot)) {
            return;
        }
        add_frame(batch, conn, m->memory, skip);
        skip = 0;
    }
}

/* The kernel has taken so many bytes of the batch. */
static void advance(struct tcp_cursor *at, const struct batch *batch, size_t bytes)
{
    for (unsigned i = 0; bytes > 0; i++) {
        size_t left = frame_bytes(&batch->frame[i]) - at->byte;
        if (bytes < left) {
            at->byte += bytes;
            return;
        }
        bytes -= left;
        at->frame++;
        at->byte = 0;
    }
}

/* The message is in the stream: numbers are used up, and the peer's word is waited for where there is one. */
static enum vipl_posted sent(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_sending *tx = &conn->tx;
    bool write = send->op == VIP_CONTROL_OP_RDMAWRITE;
    bool read = send->op == VIP_CONTROL_OP_RDMAREAD;
    tx->send_msn += read ? 0 : (write ? 0u : 1u) + (send->immediate ? 1u : 0u);
    send->status = 0;
    if (!read && !confirms(conn, send)) {
        return VIPL_POSTED_DONE;
    }
    tx->read_msn++;
    tx->pending[(tx->first_pending + tx->pending_count++) % TCP_READS] =
        (struct tcp_pending){send->sequence, (uint32_t)send->local.bytes, send->op, !read};
    return VIPL_POSTED_PENDING;
}

/* Takes note that something is sent. The first time in a while, a thread that sleeps is to look after hosts that
 * do not acknowledge. */
static void note_activity(struct tcp_nic *nic)
{
    if (vipl_load_relaxed(&nic->tx_active) == 0) {
        vipl_store_relaxed(&nic->tx_active, 1);
        vipl_up_wake(nic->core);
    }
}

/* One system call for the whole batch. A short batch goes as one piece: to copy it costs less than what the
 * kernel does for three. */
static int send_batch(struct tcp_conn *conn, const struct batch *batch, size_t *sent)
{
    uint8_t flat[FLAT];
    struct vipl_iov one = {flat, batch->bytes};
    size_t at = 0;
    if (batch->bytes > sizeof(flat)) {
        return vipl_socket_send(conn->fd, batch->pieces, batch->count, sent);
    }
    for (unsigned i = 0; i < batch->count; i++) {
        if (!vipl_iov_bytes(flat + at, batch->pieces[i].base, batch->pieces[i].len)) {
            return EFAULT;
        }
        at += batch->pieces[i].len;
    }
    return vipl_socket_send(conn->fd, &one, 1, sent);
}

/* Sends the batch, and moves the cursor. 0: all of it went; EAGAIN: there is no room for the rest; EFAULT: what
 * comes next is memory of the program's that is not there. */
static int emit(struct tcp_conn *conn, const struct batch *batch, struct tcp_cursor *at)
{
    size_t sent = 0;
    note_activity(conn->nic);
    if (batch->fault) {
        return EFAULT;
    }
    if (conn->marking != NULL) {
        return vipl_tcp_send_marked(conn, batch->pieces, batch->count, at);
    }
    int error = send_batch(conn, batch, &sent);
    advance(at, batch, sent);
    return error == 0 && sent < batch->bytes ? EAGAIN : error;
}

/* As much of the message as the socket takes. 0: all; EAGAIN: not all; EFAULT: the rest is not there. */
static int push(struct tcp_conn *conn, const struct message *m)
{
    struct tcp_sending *tx = &conn->tx;
    struct batch batch; /* large, so not cleared: fill_batch() fills what is used */
    while (tx->at.frame < m->frames) {
        fill_batch(&batch, conn, m);
        int error = emit(conn, &batch, &tx->at);
        if (error != 0 && error != EAGAIN && error != EFAULT) {
            tx->closed = true; /* the receiving side meets the error too, and the VI fails there */
            error = EAGAIN;
        }
        if (error != 0) {
            return error;
        }
    }
    tx->at = (struct tcp_cursor){0, 0};
    return 0;
}

/* The message's memory is not there. What is in the stream cannot be taken back: that ends it, at any level. */
static void end_half(struct tcp_conn *conn, struct vipl_send *send)
{
    struct tcp_sending *tx = &conn->tx;
    send->status = VIP_STATUS_PROTECTION_ERROR;
    if (is_begun(&tx->at)) {
        tx->closed = true;
        vipl_socket_finish(
            conn->fd); /* then the peer ends its half, and the VI fails when that is received */
    }
    tx->at = (struct tcp_cursor){0, 0};
}

/* Before a post's first byte goes to a foreign peer. False: the peer cannot take it, and send->status says why. */
static bool foreign_allows(struct tcp_conn *conn, struct vipl_send *send)
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

enum vipl_posted vipl_tcp_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    (void)be;
    if (conn == NULL) {
        return VIPL_POSTED_AGAIN; /* the connection has just ended; the flush follows */
    }
    struct tcp_sending *tx = &conn->tx;
    enum vipl_posted posted = VIPL_POSTED_AGAIN;
    vipl_mutex_lock(&tx->lock);
    bool waits = send->op == VIP_CONTROL_OP_RDMAREAD || confirms(conn, send);
    bool full = (waits && tx->pending_count == tx->reads && tx->reads > 0) ||
                tx->quiet; /* a response makes room, and resumes; so does the peer's first FPDU */
    bool may = !tx->closed && !tx->responding && !full;
    if (tx->refusal != 0) {
        send->status = tx->refusal;
        tx->closed = true;
        posted = VIPL_POSTED_DONE;
    } else if (may && conn->foreign && !is_begun(&tx->at) && !foreign_allows(conn, send)) {
        posted = VIPL_POSTED_DONE;
    } else if (may) {
        struct message m = {.send = send, .memory = &send->local, .frames = all_frames(conn, send)};
        tx->op = send->op;
        int error = push(conn, &m);
        if (error == 0) {
            posted = sent(conn, send);
        } else if (error == EFAULT) {
            end_half(conn, send);
            posted = VIPL_POSTED_DONE;
        }
    }
    tx->blocked = posted == VIPL_POSTED_AGAIN;
    bool tx_pending = !tx->closed && ((tx->blocked && !full) || (!tx->blocked && tx->response_count > 0));
    vipl_mutex_unlock(&tx->lock);
    if (tx_pending) {
        vipl_tcp_set_tx_pending(conn);
    }
    return posted;
}

/* --- operations that wait for a response of the peer's --- */

bool vipl_tcp_oldest_pending(struct tcp_conn *conn, struct tcp_pending *out)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_mutex_lock(&tx->lock);
    bool any = tx->pending_count > 0;
    if (any) {
        *out = tx->pending[tx->first_pending];
    }
    vipl_mutex_unlock(&tx->lock);
    return any;
}

void vipl_tcp_end_pending(struct tcp_conn *conn, const struct tcp_pending *p, uint32_t status)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_mutex_lock(&tx->lock);
    tx->first_pending = (tx->first_pending + 1) % TCP_READS;
    tx->pending_count--;
    bool resume = tx->blocked;
    vipl_mutex_unlock(&tx->lock);
    if (p->op != OP_READY) {
        vipl_up_send_done(conn->vi, p->sequence, status, p->bytes);
    }
    if (resume) {
        vipl_up_send_resume(conn->vi);
    }
}

/* What the reason of a Terminate means for the operation that it is about. */
static uint32_t status_of(uint16_t reason, uint16_t op, uint16_t reliability)
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

/* Likewise of a foreign peer's, where it is a hint only: siw puts layer and type into each other's four bits.
 * Its RDMAP protection looks like DDP's local catastrophe, which no peer sends. */
static uint32_t foreign_status_of(uint16_t reason, uint16_t op)
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
    vipl_mutex_lock(&tx->lock);
    bool pending = tx->pending_count > 0;
    bool half = !pending && is_mid_post(tx);
    struct tcp_pending p = pending ? tx->pending[tx->first_pending] : (struct tcp_pending){.op = tx->op};
    uint32_t status =
        conn->foreign ? foreign_status_of(reason, p.op) : status_of(reason, p.op, own.reliability);
    tx->refusal = half ? status : 0;
    /* A post that is half in the stream stays there: no other thread makes it pending meanwhile. */
    tx->closed = true;
    vipl_mutex_unlock(&tx->lock);
    if (pending) {
        vipl_tcp_end_pending(conn, &p, status);
    } else if (half && status != 0) {
        vipl_up_send_resume(conn->vi);
    }
}

/* --- what is not posted --- */

/* Sends a small FPDU. The stream is between two messages. False: not all of it was sent, and if a part was, that
 * ends the stream. */
static bool send_small(struct tcp_conn *conn, struct batch *batch)
{
    struct tcp_cursor at = {0, 0};
    clear_batch(batch);
    add_frame(batch, conn, NULL, 0);
    bool whole = emit(conn, batch, &at) == 0;
    conn->tx.closed |= is_begun(&at) && !whole;
    return whole;
}

/* A response to an empty Read Request ends no post. */
void vipl_tcp_send_empty(struct tcp_conn *conn, uint8_t op)
{
    struct tcp_sending *tx = &conn->tx;
    struct batch batch;
    struct vipl_ddp ddp = {.tagged = op == VIPL_RDMAP_WRITE, .last = true, .op = op, .msn = 1};
    vipl_mutex_lock(&tx->lock);
    bool idle = !tx->closed && !tx->blocked && !tx->responding;
    if (idle && op == VIPL_RDMAP_READ_REQUEST) {
        put_read_request(&batch.frame[0], tx->read_msn++, &(struct vipl_rdmap_read){0});
        tx->pending[tx->pending_count++] = (struct tcp_pending){.op = OP_READY, .confirms = true};
    } else if (idle) {
        begin_frame(&batch.frame[0], &ddp, NULL, 0, 0);
        tx->send_msn += op == VIPL_RDMAP_SEND ? 1 : 0;
    }
    if (idle && !send_small(conn, &batch)) {
        tx->closed |= op != VIPL_RDMAP_WRITE; /* its number is used up */
    }
    vipl_mutex_unlock(&tx->lock);
}

/* RFC 5040: what the error is about comes along, unless the layer below or a catastrophe is the reason. */
static void add_headers(struct vipl_rdmap_terminate *terminate, const struct tcp_about *about)
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

void vipl_tcp_terminate(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about)
{
    struct batch batch;
    uint8_t payload[VIPL_RDMAP_MAX_TERMINATE_BYTES];
    struct vipl_rdmap_terminate terminate = {.reason = reason};
    struct vipl_ddp ddp = {
        .last = true, .op = VIPL_RDMAP_TERMINATE, .queue = VIPL_DDP_QUEUE_TERMINATE, .msn = 1};
    add_headers(&terminate, about);
    size_t bytes = vipl_rdmap_terminate_write(payload, &terminate);
    vipl_mutex_lock(&conn->tx.lock);
    if (!conn->tx.closed && !is_begun(&conn->tx.at) && !conn->tx.responding) {
        begin_frame(&batch.frame[0], &ddp, payload, bytes, 0);
        send_small(conn, &batch); /* if there is no room, the peer sees the end of the stream only */
    }
    conn->tx.closed = true;
    vipl_mutex_unlock(&conn->tx.lock);
}

/* --- RDMA Reads of the peer's --- */

/* Of a read and of a write: for writes DDP has a code for each fault but a missing right. VIPL_MEM_NO_FAULT: it has
 * changed since it was refused. */
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

/* As much of the oldest response as the socket takes. Both locks are held: the memory stays registered. */
static int push_response(struct tcp_conn *conn, const struct vipl_rdmap_read *read)
{
    struct vipl_sg memory; /* large, so not cleared */
    struct message m = {.read = read, .memory = &memory, .frames = data_frames(conn, read->bytes)};
    memory.count = 1;
    memory.bytes = read->bytes;
    memory.iov[0] = (struct vipl_iov){(void *)(uintptr_t)read->source_offset, read->bytes};
    return push(conn, &m);
}

/* The oldest response's memory has gone, or the right to read it: the reason is sent to the peer if nothing of
 * the response is in the stream, which ends here otherwise. */
struct refusal {
    uint16_t reason; /* 0: none */
    struct tcp_read_response response;
};

static void refuse_response(struct tcp_conn *conn, const struct tcp_read_response *response,
                            struct refusal *out)
{
    const struct vipl_rdmap_read *read = &response->read;
    out->reason = vipl_tcp_memory_reason(conn, false, read->source_stag, read->source_offset, read->bytes);
    out->response = *response;
    conn->tx.closed |= is_begun(&conn->tx.at);
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

/* The receive lock is held: the region is looked up again for each part. */
static bool respond_one(struct tcp_conn *conn, struct refusal *refusal)
{
    struct tcp_sending *tx = &conn->tx;
    const struct tcp_read_response *response = &tx->responses[tx->first_response];
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
    tx->first_response = (tx->first_response + 1) % TCP_READS;
    tx->response_count--;
    return true;
}

/* As many responses as there is room for. */
static void send_responses(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_vi *vi = conn->vi;
    struct refusal refusal = {.reason = 0};
    vipl_mutex_lock(&tx->lock);
    bool any = tx->response_count > 0;
    vipl_mutex_unlock(&tx->lock);
    if (vi == NULL || !any) {
        return;
    }
    vipl_up_recv_lock(vi);
    vipl_mutex_lock(&tx->lock);
    while (tx->response_count > 0 && !tx->closed && !is_mid_post(tx) && respond_one(conn, &refusal)) {
    }
    bool wait = tx->responding && !tx->closed;
    bool blocked = tx->blocked && !tx->responding;
    vipl_mutex_unlock(&tx->lock);
    vipl_up_recv_unlock(vi);
    if (refusal.reason != 0) {
        struct vipl_ddp ddp = read_request_header(refusal.response.msn);
        vipl_tcp_terminate(conn, refusal.reason,
                           &(struct tcp_about){.ddp = &ddp, .read = &refusal.response.read});
    }
    if (!vipl_tcp_still_works(conn)) {
        return;
    }
    if (wait) {
        vipl_tcp_conn_watch(conn, UV_READABLE | UV_WRITABLE);
    } else if (blocked && refusal.reason == 0) {
        vipl_up_send_resume(vi);
        vipl_tcp_still_works(conn);
    }
}

bool vipl_tcp_respond(struct tcp_conn *conn, const struct tcp_read_response *response)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_mutex_lock(&tx->lock);
    bool room = tx->response_count < TCP_READS;
    if (room) {
        tx->responses[(tx->first_response + tx->response_count++) % TCP_READS] = *response;
    }
    vipl_mutex_unlock(&tx->lock);
    if (room) {
        send_responses(conn);
    }
    return room;
}

void vipl_tcp_resume(struct tcp_conn *conn)
{
    vipl_mutex_lock(&conn->tx.lock);
    conn->tx.quiet = conn->tx.quiet && conn->state != TCP_OPEN;
    vipl_mutex_unlock(&conn->tx.lock);
    send_responses(conn);
    if (conn->vi != NULL && !conn->broken) {
        vipl_up_send_resume(conn->vi);
        vipl_tcp_still_works(conn);
    }
}
