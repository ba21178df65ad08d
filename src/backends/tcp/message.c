/* SPDX-License-Identifier: MIT */
/* Messages as FPDUs, and sending them. */
#include "backends/tcp/message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "backends/tcp/foreign.h"
#include "base/list.h"
#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"
#include "os/os_compiler.h"

enum {
    MAX_FLAT_BYTES = 512, /* bytes of a batch that is sent as one piece */
    SAFE_COPY_BYTES = 512 /* bytes that are copied before their CRC is computed */
};

static size_t frame_bytes(const struct tcp_frame *f)
{
    return f->head_bytes + f->payload + f->trail_bytes;
}

/* --- frames --- */

/* Adds a piece to a CRC, where its memory may be missing (VIPL_SAFE_COPY). Returns false
 * if it is. */
static bool add_crc_safely(uint32_t *crc, const struct vipl_iov *piece)
{
    uint8_t held[SAFE_COPY_BYTES];
    bool there = true;
    for (size_t at = 0; there && at < piece->len; at += SAFE_COPY_BYTES) {
        size_t n = piece->len - at < SAFE_COPY_BYTES ? piece->len - at : SAFE_COPY_BYTES;
        there = vipl_iov_bytes(held, (const char *)piece->base + at, n);
        *crc = there ? vipl_crc32c(*crc, held, n) : 0;
    }
    return there;
}

/* The CRC of a frame. Returns false if some of the program's memory is missing. */
static bool crc_of(const struct tcp_frame *f, const struct vipl_iov *pieces, unsigned count, uint32_t *crc)
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

/* Writes the head of an FPDU: its length field, the segment's header, and `more`, the payload that
 * is not in the program's memory. */
static void begin_frame(struct tcp_frame *f, const struct vipl_ddp *ddp, const uint8_t *more,
                        size_t more_bytes, size_t payload)
{
    size_t header = vipl_ddp_write(f->head + VIPL_MPA_HEADER_BYTES, ddp);
    assert(VIPL_MPA_HEADER_BYTES + header + more_bytes <= TCP_MAX_HEAD);
    if (more_bytes > 0) {
        memcpy(f->head + VIPL_MPA_HEADER_BYTES + header, more, more_bytes);
    }
    f->head_bytes = VIPL_MPA_HEADER_BYTES + header + more_bytes;
    f->payload = payload;
    f->copy = NULL;
    vipl_put16(f->head, (uint16_t)(header + more_bytes + payload));
}

static bool end_frame(struct tcp_frame *f, bool crc, const struct vipl_iov *pieces, unsigned count)
{
    size_t ulpdu = f->head_bytes - VIPL_MPA_HEADER_BYTES + f->payload;
    uint32_t sum = 0;
    bool there = !crc || crc_of(f, pieces, count, &sum);
    f->trail_bytes = vipl_mpa_trailer_write(f->trail, ulpdu, sum, crc);
    return there;
}

static void clear_batch(struct tcp_batch *batch)
{
    batch->count = batch->frames = 0;
    batch->bytes = 0;
    batch->fault = false;
}

struct tcp_batch *vipl_tcp_small_batch_init(struct tcp_small_batch *small)
{
    small->batch.pieces = small->pieces;
    small->batch.frame = small->frame;
    small->batch.max_frames = TCP_SMALL_FRAMES;
    clear_batch(&small->batch);
    return &small->batch;
}

/* The spare batch of the device, or a new one. */
static struct tcp_batch *new_large_batch(struct tcp_nic *nic)
{
    struct tcp_large_batch *large = vipl_load_ptr(&nic->spare_batch);
    if (large == NULL || !vipl_compare_exchange_ptr(&nic->spare_batch, large, NULL)) {
        large = vipl_alloc(sizeof(*large));
        if (large == NULL) {
            return NULL;
        }
    }
    large->batch.pieces = large->pieces;
    large->batch.frame = large->frame;
    large->batch.max_frames = TCP_MAX_FRAMES;
    clear_batch(&large->batch);
    return &large->batch;
}

struct tcp_batch *vipl_tcp_batch_begin(struct tcp_small_batch *small, struct tcp_nic *nic,
                                       const struct tcp_message *m)
{
    bool is_short_list = m->memory->count <= VIPL_FEW_SEGMENTS;
    if (VIPL_LIKELY(is_short_list && m->frames <= TCP_SMALL_FRAMES)) {
        return vipl_tcp_small_batch_init(small);
    }
    struct tcp_batch *batch = new_large_batch(nic);
    return batch == NULL && is_short_list ? vipl_tcp_small_batch_init(small) : batch;
}

void vipl_tcp_batch_end(struct tcp_small_batch *small, struct tcp_nic *nic, struct tcp_batch *batch)
{
    if (VIPL_LIKELY(batch == &small->batch)) {
        return;
    }
    struct tcp_large_batch *large = VIPL_CONTAINER(batch, struct tcp_large_batch, batch);
    if (!vipl_compare_exchange_ptr(&nic->spare_batch, NULL, large)) {
        vipl_free(large);
    }
}

/* Adds the frame that begin_frame() began to the batch, without its first `skip` bytes. `sg` NULL:
 * it has no payload. */
static void add_frame(struct tcp_batch *batch, const struct tcp_conn *conn, const struct vipl_sg *sg,
                      size_t skip)
{
    struct tcp_frame *f = &batch->frame[batch->frames++];
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
    /* only the first frame of a batch may be in the stream in part */
    for (unsigned i = 0; skip > 0; i++) {
        size_t less = pieces[i].len < skip ? pieces[i].len : skip;
        pieces[i].base = (char *)pieces[i].base + less;
        pieces[i].len -= less;
        skip -= less;
    }
}

struct vipl_ddp vipl_tcp_read_request_header(uint32_t msn)
{
    return (struct vipl_ddp){.last = true,
                             .op = VIPL_RDMAP_READ_REQUEST,
                             .queue = VIPL_DDP_QUEUE_READ_REQUEST,
                             .msn = msn,
                             .segment_bytes = VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_READ_REQUEST_BYTES};
}

static void put_read_request(struct tcp_frame *f, uint32_t msn, const struct vipl_rdmap_read *read)
{
    uint8_t payload[VIPL_RDMAP_READ_REQUEST_BYTES];
    struct vipl_ddp ddp = vipl_tcp_read_request_header(msn);
    vipl_rdmap_read_write(payload, read);
    begin_frame(f, &ddp, payload, sizeof(payload), 0);
}

/* --- a message --- */

bool vipl_tcp_confirms(const struct tcp_conn *conn, const struct vipl_send *send)
{
    if (conn->tx.reads == 0) {
        return false; /* a foreign peer that takes no reads */
    }
    return send->op == VIP_CONTROL_OP_RDMAWRITE ? send->reliability != VIP_SERVICE_UNRELIABLE
                                                : send->reliability == VIP_SERVICE_RELIABLE_RECEPTION;
}

/* Whether an RDMA Write begins with an empty segment whose offset is its end. One of many segments
 * to a VIPL peer does, so that the peer can check the whole before it places a byte. */
static bool announces(const struct tcp_conn *conn, const struct vipl_send *send)
{
    return send->op == VIP_CONTROL_OP_RDMAWRITE && send->local.bytes > conn->segment && !conn->foreign;
}

unsigned vipl_tcp_data_frames(const struct tcp_conn *conn, size_t bytes)
{
    return bytes <= conn->segment ? 1 : (unsigned)((bytes + conn->segment - 1) / conn->segment);
}

unsigned vipl_tcp_all_frames(const struct tcp_conn *conn, const struct vipl_send *send)
{
    if (send->op == VIP_CONTROL_OP_RDMAREAD) {
        return 1;
    }
    return (announces(conn, send) ? 1u : 0u) + vipl_tcp_data_frames(conn, send->local.bytes) +
           (send->immediate ? 1u : 0u) + (vipl_tcp_confirms(conn, send) ? 1u : 0u);
}

/* The header of a message's data, for the message's first byte. */
static struct vipl_ddp data_header(const struct tcp_conn *conn, const struct tcp_message *m)
{
    const struct vipl_send *send = m->send;
    struct vipl_ddp ddp = {.tagged = true};
    if (send == NULL) {
        assert(m->read != NULL);
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

static void put_data(struct tcp_frame *f, const struct tcp_conn *conn, const struct tcp_message *m,
                     unsigned i)
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

static void put_immediate(struct tcp_frame *f, const struct tcp_conn *conn, const struct vipl_send *send)
{
    uint8_t payload[VIPL_RDMAP_IMMEDIATE_BYTES];
    /* the Send has taken a message number */
    uint32_t before = send->op == VIP_CONTROL_OP_RDMAWRITE ? 0 : 1;
    struct vipl_ddp ddp = {.last = true,
                           .op = VIPL_RDMAP_IMMEDIATE,
                           .queue = VIPL_DDP_QUEUE_SEND,
                           .msn = conn->tx.send_msn + before};
    vipl_rdmap_immediate_write(payload, send->immediate_data);
    begin_frame(f, &ddp, payload, sizeof(payload), 0);
}

/* Makes the i-th FPDU of a message, without its trailer. */
static void put_frame(struct tcp_frame *f, const struct tcp_conn *conn, const struct tcp_message *m,
                      unsigned i)
{
    const struct vipl_send *send = m->send;
    if (send == NULL) {
        put_data(f, conn, m, i);
        return;
    }
    unsigned data = vipl_tcp_data_frames(conn, send->local.bytes);
    /* an empty read, which confirms the message */
    struct vipl_rdmap_read read = {.sink_stag = send->sequence};
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

/* Memory that a peer reads may change until the socket has taken all of it, and then the CRC would
 * be wrong. So its payload is copied to the snapshot first, as much at a time as that has room for.
 * Returns false if the batch must be sent before the snapshot can hold this frame's payload. */
static bool copy_payload(struct tcp_batch *batch, struct tcp_frame *f, const struct tcp_message *m,
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

/* In a stream with markers, foreign.c keeps the rest of an FPDU that was sent in part, so no
 * bytes are skipped. */
void vipl_tcp_fill_batch(struct tcp_batch *batch, const struct tcp_conn *conn, const struct tcp_message *m)
{
    const struct tcp_cursor *at = &conn->tx.at;
    size_t skip = conn->marking == NULL ? at->byte : 0;
    clear_batch(batch);
    for (unsigned i = at->frame; i < m->frames && batch->frames < batch->max_frames; i++) {
        struct tcp_frame *f = &batch->frame[batch->frames];
        put_frame(f, conn, m, i);
        if (m->send == NULL && conn->tx.snapshot != NULL && f->payload > 0 &&
            !copy_payload(batch, f, m, conn->tx.snapshot)) {
            return;
        }
        add_frame(batch, conn, m->memory, skip);
        skip = 0;
    }
}

/* The kernel has taken `bytes` bytes of the batch. */
static void advance_cursor(struct tcp_cursor *at, const struct tcp_batch *batch, size_t bytes)
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

/* Sends the batch by one system call. A batch of few bytes is copied into one piece first, which
 * costs less than the kernel's work for three pieces. */
static int send_batch(struct tcp_conn *conn, const struct tcp_batch *batch, bool more, size_t *sent)
{
    uint8_t flat[MAX_FLAT_BYTES];
    struct vipl_iov one = {flat, batch->bytes};
    size_t at = 0;
    if (batch->bytes > sizeof(flat)) {
        return vipl_socket_send(conn->fd, batch->pieces, batch->count, more, sent);
    }
    for (unsigned i = 0; i < batch->count; i++) {
        if (!vipl_iov_bytes(flat + at, batch->pieces[i].base, batch->pieces[i].len)) {
            return EFAULT;
        }
        at += batch->pieces[i].len;
    }
    return vipl_socket_send(conn->fd, &one, 1, more, sent);
}

/* Sends the batch, and moves the cursor. Returns 0 if all was sent, EAGAIN if the socket has no
 * room for the rest, EFAULT if memory of the program is missing. */
static int emit(struct tcp_conn *conn, const struct tcp_batch *batch, bool more, struct tcp_cursor *at)
{
    size_t sent = 0;
    vipl_tcp_note_activity(conn->nic);
    if (batch->fault) {
        return EFAULT;
    }
    if (conn->marking != NULL) {
        return vipl_tcp_send_marked(conn, batch->pieces, batch->count, at);
    }
    int error = send_batch(conn, batch, more, &sent);
    advance_cursor(at, batch, sent);
    return error == 0 && sent < batch->bytes ? EAGAIN : error;
}

int vipl_tcp_push(struct tcp_conn *conn, const struct tcp_message *m, bool more)
{
    struct tcp_sending *tx = &conn->tx;
    struct tcp_small_batch small; /* not cleared: vipl_tcp_fill_batch() fills in what is used */
    struct tcp_batch *batch = vipl_tcp_batch_begin(&small, conn->nic, m);
    int error = batch == NULL ? EAGAIN : 0; /* the caller tries again, as with a full socket */
    while (error == 0 && tx->at.frame < m->frames) {
        vipl_tcp_fill_batch(batch, conn, m);
        bool is_last = tx->at.frame + batch->frames == m->frames;
        error = emit(conn, batch, more || !is_last, &tx->at);
    }
    if (batch != NULL) {
        vipl_tcp_batch_end(&small, conn->nic, batch);
    }
    if (error == 0) {
        tx->at = (struct tcp_cursor){0, 0};
    } else if (error != EAGAIN && error != EFAULT) {
        tx->closed = true; /* the receiving side gets the error too, and fails the VI */
        error = EAGAIN;
    }
    return error;
}

/* --- small FPDUs --- */

void vipl_tcp_begin_small(struct tcp_batch *batch, const struct vipl_ddp *ddp, const uint8_t *more,
                          size_t more_bytes)
{
    begin_frame(&batch->frame[0], ddp, more, more_bytes, 0);
}

void vipl_tcp_begin_read_request(struct tcp_batch *batch, uint32_t msn, const struct vipl_rdmap_read *read)
{
    put_read_request(&batch->frame[0], msn, read);
}

int vipl_tcp_emit_small(struct tcp_conn *conn, struct tcp_batch *batch, struct tcp_cursor *at)
{
    clear_batch(batch);
    add_frame(batch, conn, NULL, 0);
    return emit(conn, batch, false, at);
}

/* --- short messages --- */

bool vipl_tcp_is_short(const struct tcp_conn *conn, const struct vipl_send *send)
{
    return send->local.bytes <= TCP_MAX_SHORT && send->op != VIP_CONTROL_OP_RDMAREAD && !send->immediate &&
           !conn->foreign && conn->marking == NULL && !vipl_tcp_confirms(conn, send) &&
           !vipl_tcp_is_begun(&conn->tx.at);
}

/* Writes the length field and the trailer of an FPDU whose head and payload are in place. Returns
 * the FPDU's bytes. */
static size_t finish_short(uint8_t *to, const struct tcp_conn *conn, size_t head, size_t bytes)
{
    size_t ulpdu = head - VIPL_MPA_HEADER_BYTES + bytes;
    vipl_put16(to, (uint16_t)ulpdu);
    uint32_t crc = conn->crc ? vipl_crc32c(0, to, head + bytes) : 0;
    return head + bytes + vipl_mpa_trailer_write(to + head + bytes, ulpdu, crc, conn->crc);
}

size_t vipl_tcp_write_short(uint8_t *to, const struct tcp_conn *conn, const void *from, size_t bytes)
{
    struct vipl_ddp ddp = {
        .last = true, .op = VIPL_RDMAP_SEND, .queue = VIPL_DDP_QUEUE_SEND, .msn = conn->tx.send_msn};
    size_t head = VIPL_MPA_HEADER_BYTES + vipl_ddp_write(to + VIPL_MPA_HEADER_BYTES, &ddp);
    memcpy(to + head, from, bytes);
    return finish_short(to, conn, head, bytes);
}

size_t vipl_tcp_write_short_send(uint8_t *to, const struct tcp_conn *conn, const struct vipl_send *send)
{
    struct tcp_message m = {.send = send};
    struct vipl_ddp ddp = data_header(conn, &m);
    ddp.last = true;
    size_t bytes = send->local.bytes;
    size_t head = VIPL_MPA_HEADER_BYTES + vipl_ddp_write(to + VIPL_MPA_HEADER_BYTES, &ddp);
    if (!vipl_iov_gather(to + head, &send->local, 0, bytes)) {
        return 0;
    }
    return finish_short(to, conn, head, bytes);
}
