/* SPDX-License-Identifier: MIT */
/*
 * The stream into receives, registered memory and outcomes. Everything a peer says is checked before it is acted on;
 * what is wrong costs the peer its connection, and nothing else.
 */
#include <errno.h>
#include <string.h>

#include "backends/tcp/tcp.h"
#include "base/iov.h"
#include "iwarp/bytes.h"

/* The stream makes no sense: its end. */
static bool give_up_about(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about)
{
    vipl_tcp_terminate(conn, reason, about);
    vipl_tcp_conn_fail(conn, VIP_ERROR_RDMA_TRANSPORT);
    return false;
}

static bool give_up(struct tcp_conn *conn, uint16_t reason, const struct vipl_ddp *ddp)
{
    return give_up_about(conn, reason, &(struct tcp_about){.ddp = ddp});
}

static bool done_about(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about)
{
    vipl_up_recv_unlock(conn->vi);
    if (reason != 0 && !conn->unreliable) {
        vipl_tcp_terminate(conn, reason, about);
    }
    return vipl_tcp_still_works(conn);
}

bool vipl_tcp_done(struct tcp_conn *conn, uint16_t reason, const struct vipl_ddp *ddp)
{
    return done_about(conn, reason, &(struct tcp_about){.ddp = ddp});
}

/* The message's last byte is in the segment, and none of it is still to come. */
static bool ends_message(const struct tcp_segment *s)
{
    return s->ddp.last && s->ahead == 0;
}

/* What has landed is in its place already. False: the place is not there. */
static bool place(const struct vipl_sg *to, size_t offset, const struct tcp_segment *s)
{
    return s->payload == NULL || vipl_iov_scatter(to, offset, s->payload, s->bytes);
}

uint16_t vipl_tcp_recv_fault(struct tcp_conn *conn)
{
    vipl_up_recv_finish(conn->vi, VIP_STATUS_PROTECTION_ERROR, 0, false, NULL);
    conn->rx.drop = true;
    return vipl_tcp_claim_reason(VIPL_CLAIM_FAILED);
}

uint16_t vipl_tcp_write_fault(struct tcp_conn *conn)
{
    vipl_up_rdma_refuse(conn->vi, true);
    conn->rx.write_refused = true;
    return VIPL_TERM_DDP_TAGGED_STAG;
}

/* --- Send and Immediate Data --- */

uint16_t vipl_tcp_claim_reason(enum vipl_claim claim)
{
    return claim == VIPL_CLAIM_EMPTY    ? VIPL_TERM_DDP_UNTAGGED_NO_BUFFER
           : claim == VIPL_CLAIM_FAILED ? VIPL_TERM_DDP_UNTAGGED_TOO_LONG
                                        : 0;
}

static bool on_send(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_sg to;
    enum tcp_held held = s->ddp.op == VIPL_RDMAP_SEND_SE && !conn->foreign ? TCP_HELD_FOR_IMMEDIATE
                         : conn->confirms_sends                            ? TCP_HELD_FOR_READ
                                                                           : TCP_HELD_NOT;
    bool whole = ends_message(s);
    uint16_t reason = 0;
    if (s->ddp.msn != rx->send_msn) {
        return give_up(conn, VIPL_TERM_DDP_UNTAGGED_MSN, &s->ddp);
    }
    if (rx->held != TCP_HELD_NOT) { /* it promised immediate data, or is to be confirmed first */
        return give_up(conn, VIPL_TERM_RDMAP_OPCODE, &s->ddp);
    }
    if (s->ddp.mo != rx->mo || s->bytes + s->ahead > UINT32_MAX - rx->mo) {
        return give_up(conn, VIPL_TERM_DDP_UNTAGGED_MO, &s->ddp);
    }
    uint32_t end = rx->mo + (uint32_t)s->bytes;
    vipl_up_recv_lock(conn->vi);
    if (!rx->drop) {
        enum vipl_claim claim = vipl_up_recv_claim(conn->vi, end + s->ahead, &to);
        rx->drop = claim != VIPL_CLAIM_OK;
        reason = vipl_tcp_claim_reason(claim);
    }
    if (!rx->drop) {
        if (!place(&to, rx->mo, s)) {
            reason = vipl_tcp_recv_fault(conn);
        } else if (whole && held == TCP_HELD_NOT) {
            vipl_up_recv_finish(conn->vi, 0, end, false, NULL);
        }
    }
    rx->mo = whole ? 0 : end;
    if (whole) {
        rx->send_msn++;
        rx->held = held;
        rx->held_write = rx->held_says = false;
        rx->held_bytes = end;
        rx->held_drop = rx->drop;
        rx->drop = false;
    }
    return vipl_tcp_done(conn, reason, &s->ddp);
}

/* What is wrong with a message that is one segment of that many bytes; 0: nothing. */
static uint16_t fault_of_small(const struct tcp_segment *s, uint32_t msn, size_t bytes)
{
    return s->ddp.msn != msn                  ? VIPL_TERM_DDP_UNTAGGED_MSN
           : s->ddp.mo != 0                   ? VIPL_TERM_DDP_UNTAGGED_MO
           : !s->ddp.last || s->bytes > bytes ? VIPL_TERM_DDP_UNTAGGED_TOO_LONG
           : s->bytes < bytes                 ? VIPL_TERM_RDMAP_UNSPECIFIED
                                              : 0;
}

static void hold_for_read(struct tcp_receiving *rx, uint32_t bytes, bool write, uint32_t immediate)
{
    rx->held = TCP_HELD_FOR_READ;
    rx->held_bytes = bytes;
    rx->held_write = write;
    rx->held_says = true;
    rx->held_immediate = immediate;
}

static bool on_immediate(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_sg to;
    uint16_t fault = fault_of_small(s, rx->send_msn, VIPL_RDMAP_IMMEDIATE_BYTES);
    if (fault != 0 || rx->mo != 0 || rx->held == TCP_HELD_FOR_READ) { /* a message is not over */
        return give_up(conn, fault != 0 ? fault : VIPL_TERM_RDMAP_OPCODE, &s->ddp);
    }
    uint32_t immediate = vipl_rdmap_immediate_read(s->payload);
    bool of_send = rx->held == TCP_HELD_FOR_IMMEDIATE;
    bool confirms = of_send ? conn->confirms_sends : conn->confirms_writes;
    bool drop = of_send ? rx->held_drop : rx->write_refused;
    uint32_t bytes = of_send ? rx->held_bytes : rx->write_bytes;
    enum vipl_claim claim = VIPL_CLAIM_GONE;
    rx->send_msn++;
    rx->held = TCP_HELD_NOT;
    rx->held_drop = rx->write_refused = false;
    vipl_up_recv_lock(conn->vi);
    if (!drop) {
        claim = of_send ? vipl_up_recv_claim(conn->vi, bytes, &to) : vipl_up_recv_claim(conn->vi, 0, NULL);
    }
    if (claim == VIPL_CLAIM_OK && confirms) {
        hold_for_read(rx, bytes, !of_send, immediate);
    } else if (claim == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(conn->vi, 0, bytes, !of_send, &immediate);
    }
    return vipl_tcp_done(conn, vipl_tcp_claim_reason(claim), &s->ddp);
}

/* --- RDMA --- */

/* What a peer is told of memory that it may not have: DDP finds that of an RDMA Write, but for the right, RDMAP that of an
 * RDMA Read. */
static uint16_t write_reason(enum vipl_mem_fault fault)
{
    switch (fault) {
    case VIPL_MEM_UNKNOWN:
        return VIPL_TERM_DDP_TAGGED_STAG;
    case VIPL_MEM_OTHER_TAG:
        return VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED;
    case VIPL_MEM_WRAPS:
        return VIPL_TERM_DDP_TAGGED_WRAP;
    case VIPL_MEM_OUTSIDE:
        return VIPL_TERM_DDP_TAGGED_BOUNDS;
    case VIPL_MEM_NO_RIGHT:
        return VIPL_TERM_RDMAP_ACCESS;
    default: /* it has changed since it was refused */
        return VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED;
    }
}

uint16_t vipl_tcp_read_reason(struct tcp_conn *conn, const struct vipl_rdmap_read *read)
{
    switch (vipl_up_rdma_fault(conn->vi, false, read->source_stag, read->source_offset, read->bytes)) {
    case VIPL_MEM_UNKNOWN:
        return VIPL_TERM_RDMAP_INVALID_STAG;
    case VIPL_MEM_OTHER_TAG:
        return VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED;
    case VIPL_MEM_WRAPS:
        return VIPL_TERM_RDMAP_TO_WRAP;
    case VIPL_MEM_OUTSIDE:
        return VIPL_TERM_RDMAP_BASE_BOUNDS;
    case VIPL_MEM_NO_RIGHT:
        return VIPL_TERM_RDMAP_ACCESS;
    default:
        return VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED;
    }
}

/* How many bytes are looked up for those of a segment: to the message's end, where it is known. A segment that goes
 * beyond that, or ends the message before, asks for more than any region has; so does one further from the end than a
 * message may be long. */
static uint64_t extent_of_write(const struct tcp_receiving *rx, const struct vipl_ddp *ddp, size_t bytes)
{
    uint64_t left = rx->write_end - ddp->offset;
    bool fits = bytes <= left && left <= TCP_TRANSFER_SIZE && (!ddp->last || bytes == left);
    return !rx->announced ? bytes : fits ? left : UINT64_MAX;
}

bool vipl_tcp_write_allowed(struct tcp_conn *conn, const struct vipl_ddp *ddp, size_t bytes, uint16_t *reason)
{
    struct tcp_receiving *rx = &conn->rx;
    uint64_t extent = extent_of_write(rx, ddp, bytes);
    bool before = rx->write_refused;
    *reason = 0;
    rx->write_refused = before || !vipl_up_rdma_allowed(conn->vi, true, ddp->stag, ddp->offset, extent);
    if (rx->write_refused && !before) {
        bool beyond = extent == UINT64_MAX;
        *reason = beyond ? VIPL_TERM_DDP_TAGGED_BOUNDS
                         : write_reason(vipl_up_rdma_fault(conn->vi, true, ddp->stag, ddp->offset, extent));
    }
    return !rx->write_refused;
}

/* The first segment of an RDMA Write. One of us says in an empty one where a message of more than one ends. False: it does
 * not. */
static bool begin_write(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    bool empty = s->bytes + s->ahead == 0;
    rx->writing = true;
    rx->write_bytes = 0;
    rx->write_refused = false;
    rx->announced = !conn->foreign && !s->ddp.last && empty;
    rx->write_end = s->ddp.offset;
    return conn->foreign || s->ddp.last || empty;
}

static bool on_write(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    uint16_t reason;
    if (!rx->writing && !begin_write(conn, s)) {
        return give_up(conn, VIPL_TERM_RDMAP_UNSPECIFIED, &s->ddp);
    }
    vipl_up_recv_lock(conn->vi);
    bool allowed = vipl_tcp_write_allowed(conn, &s->ddp, s->bytes + s->ahead, &reason);
    if (allowed && s->bytes > 0 && s->payload != NULL) {
        struct vipl_sg from = {.count = 1, .bytes = s->bytes};
        from.iov[0] = (struct vipl_iov){(void *)(uintptr_t)s->payload, s->bytes};
        if (vipl_iov_ordered((unsigned char *)(uintptr_t)s->ddp.offset, &from) != VIPL_IOV_DONE) {
            reason = vipl_tcp_write_fault(conn);
        }
    }
    rx->write_bytes += (uint32_t)s->bytes;
    rx->writing = !ends_message(s);
    return vipl_tcp_done(conn, reason, &s->ddp);
}

/* The empty read behind a message has come, and is answered before the lock that VipDisconnect needs is free: the message
 * may be told of. The VI's receive lock is held. */
static void finish_held(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    bool drop = rx->held_drop;
    rx->held = TCP_HELD_NOT;
    rx->held_drop = false;
    if (!drop && vipl_up_recv_claim(conn->vi, 0, NULL) == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(conn->vi, 0, rx->held_bytes, rx->held_write,
                            rx->held_says ? &rx->held_immediate : NULL);
    }
}

static bool on_read(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_sending *tx = &conn->tx;
    struct vipl_rdmap_read read;
    uint16_t reason = fault_of_small(s, conn->rx.read_msn, VIPL_RDMAP_READ_REQUEST_BYTES);
    if (reason != 0) {
        return give_up(conn, reason, &s->ddp);
    }
    conn->rx.read_msn++;
    vipl_rdmap_read_read(s->payload, &read);
    vipl_up_recv_lock(conn->vi);
    if (conn->rx.held == TCP_HELD_FOR_READ) {
        finish_held(conn);
    }
    bool allowed = read.bytes == 0 ||
                   vipl_up_rdma_allowed(conn->vi, false, read.source_stag, read.source_offset, read.bytes);
    reason = allowed ? 0 : vipl_tcp_read_reason(conn, &read);
    if (!done_about(conn, reason, &(struct tcp_about){.ddp = &s->ddp, .read = &read})) {
        return false;
    }
    if (!allowed) { /* an unreliable VI answers none */
        return give_up(conn, VIPL_TERM_RDMAP_OPCODE, &s->ddp);
    }
    vipl_mutex_lock(&tx->lock);
    bool room = tx->answers < TCP_READS;
    if (room) {
        tx->answer[(tx->first_answer + tx->answers++) % TCP_READS] = (struct tcp_answer){read, s->ddp.msn};
    }
    vipl_mutex_unlock(&tx->lock);
    if (!room) { /* more than were agreed */
        return give_up(conn, VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, &s->ddp);
    }
    vipl_tcp_answer(conn);
    return !conn->broken;
}

/* The oldest operation that waits for the peer's word. */
static bool first_pending(struct tcp_conn *conn, struct tcp_pending *out)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_mutex_lock(&tx->lock);
    bool any = tx->pendings > 0;
    if (any) {
        *out = tx->pending[tx->first_pending];
    }
    vipl_mutex_unlock(&tx->lock);
    return any;
}

/* It is over; a post that waited for its place may go. */
static bool end_pending(struct tcp_conn *conn, const struct tcp_pending *p, uint32_t status)
{
    struct tcp_sending *tx = &conn->tx;
    vipl_mutex_lock(&tx->lock);
    tx->first_pending = (tx->first_pending + 1) % TCP_READS;
    tx->pendings--;
    bool resume = tx->blocked;
    vipl_mutex_unlock(&tx->lock);
    if (p->op != TCP_OP_READY) {
        vipl_up_send_done(conn->vi, p->sequence, status, p->bytes);
    }
    if (resume) {
        vipl_up_send_resume(conn->vi);
    }
    return vipl_tcp_still_works(conn);
}

static bool on_response(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    struct tcp_pending p;
    if (!first_pending(conn, &p)) {
        return give_up(conn, VIPL_TERM_DDP_TAGGED_STAG, &s->ddp);
    }
    uint32_t expected = p.confirms ? 0 : p.bytes;
    if (p.confirms && conn->foreign) { /* siw puts into it what it sent last */
        return s->ddp.stag == p.sequence ? !ends_message(s) || end_pending(conn, &p, 0)
                                         : give_up(conn, VIPL_TERM_DDP_TAGGED_STAG, &s->ddp);
    }
    if (s->ddp.stag != p.sequence) {
        return give_up(conn, VIPL_TERM_DDP_TAGGED_STAG, &s->ddp);
    }
    if (s->ddp.offset != rx->response_bytes || s->bytes + s->ahead > expected - rx->response_bytes ||
        (s->ddp.last && rx->response_bytes + s->bytes + s->ahead != expected)) {
        return give_up(conn, VIPL_TERM_DDP_TAGGED_BOUNDS, &s->ddp);
    }
    if (s->bytes > 0) {
        struct vipl_sg to;
        vipl_up_send_lock(conn->vi);
        rx->response_lost |=
            !vipl_up_read_target(conn->vi, p.sequence, &to) || !place(&to, rx->response_bytes, s);
        vipl_up_send_unlock(conn->vi);
    }
    rx->response_bytes = ends_message(s) ? 0 : rx->response_bytes + (uint32_t)s->bytes;
    if (!ends_message(s)) {
        return true;
    }
    uint32_t status = rx->response_lost ? VIP_STATUS_PROTECTION_ERROR : 0;
    rx->response_lost = false;
    return end_pending(conn, &p, status);
}

/* --- Terminate --- */

/* What a peer's reason means for the operation that it stopped at. */
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

static bool on_terminate(struct tcp_conn *conn, const struct tcp_segment *s)
{
    struct vipl_rdmap_terminate terminate;
    struct vipl_vi_params own;
    struct tcp_pending p;
    bool half;
    if (vipl_rdmap_terminate_read(s->payload, s->bytes, &terminate) && vipl_tcp_stopped_at(conn, &p, &half)) {
        vipl_up_vi_params(conn->vi, &own);
        uint32_t status = conn->foreign ? vipl_tcp_foreign_status(terminate.reason, p.op)
                                        : status_of(terminate.reason, p.op, own.reliability);
        if (!(half ? vipl_tcp_refuse_post(conn, status) : end_pending(conn, &p, status))) {
            return false;
        }
    }
    vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
    return false;
}

/* --- segments --- */

static uint16_t reason_of_fault(enum vipl_ddp_fault fault, bool tagged)
{
    switch (fault) {
    case VIPL_DDP_FAULT_VERSION:
        return tagged ? VIPL_TERM_DDP_TAGGED_VERSION : VIPL_TERM_DDP_UNTAGGED_VERSION;
    case VIPL_DDP_FAULT_RDMAP_VERSION:
        return VIPL_TERM_RDMAP_VERSION;
    case VIPL_DDP_FAULT_OPCODE:
        return VIPL_TERM_RDMAP_OPCODE;
    case VIPL_DDP_FAULT_QUEUE:
        return VIPL_TERM_DDP_UNTAGGED_QUEUE;
    default:
        return VIPL_TERM_MPA_PROTOCOL;
    }
}

/* The peer has taken up our answer. False: our side wants it no more. */
static bool open_now(struct tcp_conn *conn)
{
    struct tcp_acceptance *acceptance = conn->acceptance;
    if (acceptance == NULL) {
        vipl_tcp_call_opened(conn);
        return conn->state == TCP_OPEN;
    }
    conn->acceptance = NULL;
    vipl_tcp_conn_open(conn);
    acceptance->opened = vipl_up_connected(conn->vi, &conn->params);
    acceptance->over = true;
    if (!acceptance->opened) { /* who waits for it ends it */
        conn->broken = true;
        vipl_tcp_conn_watch(conn, 0);
    }
    return acceptance->opened;
}

/* The message by which a requester says that it has our reply, and nothing else. An empty read is answered. */
static bool is_ready_message(struct tcp_conn *conn, const struct tcp_segment *s)
{
    if (s->ddp.op == VIPL_RDMAP_SEND && conn->foreign && s->bytes == 0 && s->ddp.last && s->ddp.msn == 1 &&
        s->ddp.mo == 0 && vipl_tcp_ready_op(&conn->enhanced) == VIPL_RDMAP_SEND) {
        conn->rx.send_msn++; /* it takes no receive */
        return true;
    }
    return s->ddp.op == VIPL_RDMAP_WRITE && s->bytes == 0 && s->ddp.last;
}

/* The first FPDU. *whole: there is nothing more to it. False: as vipl_tcp_segment(). */
static bool on_first(struct tcp_conn *conn, const struct tcp_segment *s, bool *whole)
{
    if (conn->state == TCP_FRESH) {
        return vipl_tcp_foreign_heard(conn);
    }
    if (!open_now(conn)) {
        return false;
    }
    *whole = is_ready_message(conn, s);
    return true;
}

bool vipl_tcp_segment(struct tcp_conn *conn, const struct tcp_segment *s)
{
    switch (s->ddp.op) {
    case VIPL_RDMAP_SEND:
    case VIPL_RDMAP_SEND_SE:
        return on_send(conn, s);
    case VIPL_RDMAP_IMMEDIATE:
    case VIPL_RDMAP_IMMEDIATE_SE:
        return on_immediate(conn, s);
    case VIPL_RDMAP_WRITE:
        return on_write(conn, s);
    case VIPL_RDMAP_READ_REQUEST:
        return on_read(conn, s);
    case VIPL_RDMAP_READ_RESPONSE:
        return on_response(conn, s);
    case VIPL_RDMAP_TERMINATE:
        return on_terminate(conn, s);
    default: /* nobody invalidates memory of ours */
        return give_up(conn, VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, &s->ddp);
    }
}

static bool on_ulpdu(struct tcp_conn *conn, const uint8_t *ulpdu, size_t length)
{
    struct tcp_segment s = {.ahead = 0};
    enum vipl_ddp_fault fault = vipl_ddp_read(ulpdu, length, &s.ddp);
    if (fault != VIPL_DDP_OK) {
        bool known = fault != VIPL_DDP_FAULT_SHORT;
        return give_up_about(conn, reason_of_fault(fault, s.ddp.tagged),
                             &(struct tcp_about){.ddp = known ? &s.ddp : NULL, .control = ulpdu});
    }
    s.payload = ulpdu + s.ddp.header_bytes;
    s.bytes = length - s.ddp.header_bytes;
    if (conn->state != TCP_OPEN) {
        bool whole = false;
        if (!on_first(conn, &s, &whole) || whole) {
            return whole;
        }
    }
    return vipl_tcp_segment(conn, &s);
}

/* --- FPDUs --- */

static size_t fpdu_bytes(const uint8_t *at)
{
    return vipl_mpa_fpdu_bytes(vipl_get16(at));
}

static bool on_fpdu(struct tcp_conn *conn, const uint8_t *fpdu, size_t bytes)
{
    if (conn->crc && !vipl_mpa_crc_is_right(fpdu, bytes)) {
        return give_up(conn, VIPL_TERM_MPA_CRC, NULL);
    }
    return on_ulpdu(conn, fpdu + VIPL_MPA_HEADER_BYTES, vipl_get16(fpdu));
}

bool vipl_tcp_stash(struct tcp_conn *conn, const uint8_t *from, size_t bytes)
{
    struct tcp_receiving *rx = &conn->rx;
    size_t need = bytes < VIPL_MPA_HEADER_BYTES ? VIPL_MPA_HEADER_BYTES : fpdu_bytes(from);
    if (need > rx->stash_size) {
        uint8_t *stash = vipl_alloc(need);
        if (stash == NULL) {
            return give_up(conn, VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC, NULL);
        }
        vipl_free(rx->stash);
        rx->stash = stash;
        rx->stash_size = need;
    }
    memcpy(rx->stash, from, bytes);
    rx->stash_have = bytes;
    return true;
}

/* FPDUs in a row; of the last there may be a part. */
static bool on_bytes(struct tcp_conn *conn, const uint8_t *at, size_t left)
{
    while (left > 0) {
        size_t bytes = left < VIPL_MPA_HEADER_BYTES ? SIZE_MAX : fpdu_bytes(at);
        if (bytes > left) {
            return vipl_tcp_lands(conn, at, left) ? vipl_tcp_land_begin(conn, at, left)
                                                  : vipl_tcp_stash(conn, at, left);
        }
        vipl_tcp_land_expect(&conn->rx, bytes);
        if (!on_fpdu(conn, at, bytes)) {
            return false;
        }
        at += bytes;
        left -= bytes;
    }
    return true;
}

/* What the FPDU in the stash still lacks. */
static size_t stash_lacks(const struct tcp_receiving *rx)
{
    size_t need = rx->stash_have == 0                      ? 0
                  : rx->stash_have < VIPL_MPA_HEADER_BYTES ? VIPL_MPA_HEADER_BYTES
                                                           : fpdu_bytes(rx->stash);
    return need - rx->stash_have;
}

/* The stash has got `n` more bytes. */
static bool on_stash(struct tcp_conn *conn, size_t n)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t head[VIPL_MPA_HEADER_BYTES];
    rx->stash_have += n;
    if (rx->stash_have == VIPL_MPA_HEADER_BYTES) { /* now it is known how long it is */
        memcpy(head, rx->stash, sizeof(head));
        return vipl_tcp_stash(conn, head, sizeof(head));
    }
    if (rx->stash_have < fpdu_bytes(rx->stash)) {
        return true;
    }
    size_t bytes = rx->stash_have;
    rx->stash_have = 0;
    return on_fpdu(conn, rx->stash, bytes);
}

/* Bytes of the stream, with an FPDU in the stash that is known how long it is, or with none. */
static bool on_stream(struct tcp_conn *conn, const uint8_t *at, size_t left)
{
    size_t lacks = stash_lacks(&conn->rx);
    size_t n = left < lacks ? left : lacks;
    if (n > 0) {
        memcpy(conn->rx.stash + conn->rx.stash_have, at, n);
        if (!on_stash(conn, n)) {
            return false;
        }
    }
    return n == left || on_bytes(conn, at + n, left - n);
}

/* What a system call brought. False: nothing. */
static bool arrived(struct tcp_conn *conn, int error, size_t n)
{
    if (error == EAGAIN) {
        return false;
    }
    if (error != 0 || n == 0) {
        vipl_tcp_conn_fail(conn, VIP_ERROR_CONN_LOST);
        return false;
    }
    conn->readable = true;
    conn->be->hot = conn;
    return true;
}

/* One system call. True: there may be more. */
static bool receive_once(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t *scratch = conn->be->scratch;
    size_t room = vipl_tcp_land_room(rx);
    size_t lacks = stash_lacks(rx);
    bool blind = rx->stash_have == 1; /* it is not known yet how long the FPDU is */
    struct vipl_iov pieces[2] = {{rx->stash + rx->stash_have, lacks}, {scratch, room}};
    unsigned skip = lacks == 0 ? 1 : 0;
    size_t n = 0;
    int error = vipl_socket_receive(conn->fd, pieces + skip, blind ? 1 : 2 - skip, &n);
    if (!arrived(conn, error, n)) {
        return false;
    }
    size_t stashed = n < lacks ? n : lacks;
    if (stashed > 0 && !on_stash(conn, stashed)) {
        return false;
    }
    if (n > stashed && !on_bytes(conn, scratch, n - stashed)) {
        return false;
    }
    return blind || n == lacks + room || rx->landing > 0;
}

/* Likewise, when the rest of a large FPDU is to come. */
static bool land_once(struct tcp_conn *conn)
{
    struct tcp_landing got;
    int error = vipl_tcp_land(conn, &got);
    if (conn->broken || !arrived(conn, error, got.received)) {
        return false;
    }
    size_t left = got.received - got.landed;
    return vipl_tcp_landed(conn, got.landed) && (left == 0 || on_stream(conn, got.rest, left));
}

void vipl_tcp_receive(struct tcp_conn *conn)
{
    while (!conn->broken && (conn->rx.landing > 0 ? land_once(conn) : receive_once(conn))) {
    }
}
