/* SPDX-License-Identifier: MIT */
/*
 * The stream into receives, registered memory and outcomes. Everything a peer says is checked before it is acted on;
 * what is wrong costs the peer its connection, and nothing else.
 *
 * One system call fills a buffer with many FPDUs, and each is placed from there. Of an FPDU that is not all there, either
 * the reassembly buffer gets the rest, or, where much payload is missing and there is no CRC, the rest is placed directly:
 * it is received to where it goes. Then the last few bytes go through the reassembly buffer, because they are to be
 * stored last and whole: by them an RDMA Write becomes visible in order. Where memory is may change from one system call
 * to the next, so it is looked up for each, which is made under the VI's lock: nothing is placed in memory that has been deregistered.
 * What may not be placed is received all the same, and dropped.
 */
#include "backends/tcp/rx.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/conn.h"
#include "backends/tcp/request.h"
#include "base/iov.h"
#include "iwarp/bytes.h"
#include "os/os_compiler.h"

enum {
    DIRECT_MIN = 8 * 1024, /* missing payload that is worth a system call of its own */
    LARGE = 48 * 1024,     /* bytes of an FPDU after which more of its kind are expected */
    EXPECTED = 4,          /* smaller FPDUs that may come in between */
    ROOM = 512,            /* bytes that are then received in addition: the head of the next */
    ITEM = 8               /* bytes that are stored whole */
};

/* A DDP segment, or a part of one. */
struct segment {
    struct vipl_ddp ddp;
    const uint8_t *payload; /* NULL: it is in the socket, from where it is to be placed directly */
    size_t bytes;    /* of payload in this part; from the socket so many at most, and then those that came */
    size_t left;     /* from this part's first byte to the segment's last */
    int error;       /* from the socket: why nothing came, or 0 */
    size_t received; /* from the socket: with what follows the payload, */
    const uint8_t *rest; /* which is here */
};

/* The stream breaks the protocol: it ends. */
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

/* Releases the VI's receive lock, and sends the reason, if there is one, to the peer of a reliable VI. */
static bool unlock_about(struct tcp_conn *conn, uint16_t reason, const struct tcp_about *about)
{
    vipl_up_recv_unlock(conn->vi);
    if (reason != 0 && !conn->unreliable) {
        vipl_tcp_terminate(conn, reason, about);
    }
    return vipl_tcp_still_works(conn);
}

static bool unlock(struct tcp_conn *conn, uint16_t reason, const struct vipl_ddp *ddp)
{
    return unlock_about(conn, reason, &(struct tcp_about){.ddp = ddp});
}

/* The message's last byte is in the part, and none of it is still to come. */
static bool ends_message(const struct segment *s)
{
    return s->ddp.last && s->left == s->bytes;
}

/* --- placing payload --- */

/* One system call: the payload to where it goes, or to nowhere, and what follows it into the scratch buffer. */
static bool place_from_socket(struct tcp_conn *conn, struct segment *s, const struct vipl_sg *to,
                              size_t offset)
{
    uint8_t *scratch = conn->nic->scratch;
    struct vipl_iov *pieces = conn->nic->pieces;
    unsigned count = to == NULL ? 0 : vipl_iov_slice(pieces, to, offset, s->bytes);
    pieces[count] = (struct vipl_iov){scratch, ROOM + (to == NULL ? s->bytes : 0)};
    s->received = 0;
    s->error = vipl_socket_receive(conn->fd, pieces, count + 1, &s->received);
    s->bytes = s->received < s->bytes ? s->received : s->bytes;
    s->rest = scratch + (to == NULL ? s->bytes : 0);
    return s->error != EFAULT;
}

/* Puts the payload where it goes, from the buffer or from the socket; `to` NULL: it is dropped. False: that
 * memory is not there, and the payload in the socket is still to come. */
static bool place(struct tcp_conn *conn, struct segment *s, const struct vipl_sg *to, size_t offset)
{
    if (s->payload == NULL) {
        return place_from_socket(conn, s, to, offset);
    }
    if (to == NULL || s->bytes == 0) {
        return true;
    }
    if (s->ddp.op == VIPL_RDMAP_WRITE) {
        return vipl_iov_ordered_piece(to->iov[0].base, s->payload, s->bytes) == VIPL_IOV_DONE;
    }
    return vipl_iov_scatter(to, offset, s->payload, s->bytes);
}

/* --- Send and Immediate Data --- */

static uint16_t claim_reason(enum vipl_claim claim)
{
    return claim == VIPL_CLAIM_EMPTY    ? VIPL_TERM_DDP_UNTAGGED_NO_BUFFER
           : claim == VIPL_CLAIM_FAILED ? VIPL_TERM_DDP_UNTAGGED_TOO_LONG
                                        : 0;
}

/* What is wrong with a segment of a Send; 0: nothing. */
static uint16_t fault_of_send(const struct tcp_receiving *rx, const struct segment *s)
{
    return s->ddp.msn != rx->send_msn                                      ? VIPL_TERM_DDP_UNTAGGED_MSN
           : rx->held != TCP_HELD_NOT /* the message before is not over */ ? VIPL_TERM_RDMAP_OPCODE
           : s->ddp.mo != rx->mo || s->left > UINT32_MAX - rx->mo          ? VIPL_TERM_DDP_UNTAGGED_MO
                                                                           : 0;
}

/* Returns the reason to give. The VI's receive lock is held, here and below. */
static uint16_t place_send(struct tcp_conn *conn, struct segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_sg to;
    uint16_t reason = 0;
    if (!rx->drop) {
        enum vipl_claim claim = vipl_up_recv_claim(conn->vi, rx->mo + s->left, &to);
        rx->drop = claim != VIPL_CLAIM_OK;
        reason = claim_reason(claim);
    }
    if (!place(conn, s, rx->drop ? NULL : &to, rx->mo)) {
        vipl_up_recv_finish(conn->vi, VIP_STATUS_PROTECTION_ERROR, 0, false, NULL);
        rx->drop = true;
        reason = claim_reason(VIPL_CLAIM_FAILED);
    }
    rx->mo += (uint32_t)s->bytes;
    return reason;
}

/* All of a Send has come. */
static void end_send(struct tcp_conn *conn, uint8_t op)
{
    struct tcp_receiving *rx = &conn->rx;
    rx->held = op == VIPL_RDMAP_SEND_SE && !conn->foreign ? TCP_HELD_FOR_IMMEDIATE
               : conn->confirms_sends                     ? TCP_HELD_FOR_READ
                                                          : TCP_HELD_NOT;
    if (rx->held == TCP_HELD_NOT && !rx->drop) {
        vipl_up_recv_finish(conn->vi, 0, rx->mo, false, NULL);
    }
    rx->held_write = rx->held_has_immediate = false;
    rx->held_bytes = rx->mo;
    rx->held_drop = rx->drop;
    rx->drop = false;
    rx->mo = 0;
    rx->send_msn++;
}

static bool on_send(struct tcp_conn *conn, struct segment *s)
{
    uint16_t fault = fault_of_send(&conn->rx, s);
    if (fault != 0) {
        return give_up(conn, fault, &s->ddp);
    }
    vipl_up_recv_lock(conn->vi);
    uint16_t reason = place_send(conn, s);
    if (ends_message(s)) {
        end_send(conn, s->ddp.op);
    }
    return unlock(conn, reason, &s->ddp);
}

/* What is wrong with a message that is one segment of that many bytes; 0: nothing. */
static uint16_t fault_of_small(const struct segment *s, uint32_t msn, size_t bytes)
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
    rx->held_has_immediate = true;
    rx->held_immediate = immediate;
}

static bool on_immediate(struct tcp_conn *conn, struct segment *s)
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
    return unlock(conn, claim_reason(claim), &s->ddp);
}

/* --- RDMA --- */

/* How many bytes the peer must be allowed to write before a segment is placed: those to the message's end, where
 * that is known. For a segment that goes beyond the end, is the last one and stops before it, or is further from
 * it than a message may be long, they are more than any region has. */
static uint64_t extent_of_write(const struct tcp_receiving *rx, const struct vipl_ddp *ddp, size_t bytes)
{
    uint64_t left = rx->write_end - ddp->offset;
    bool fits = bytes <= left && left <= TCP_TRANSFER_SIZE && (!ddp->last || bytes == left);
    return !rx->announced ? bytes : fits ? left : UINT64_MAX;
}

/* Whether the segment's payload may be placed, and all that is still to come of the message. *reason: to send to
 * the peer; 0: there is none, or it has been sent. The VI's receive lock is held. */
static bool write_allowed(struct tcp_conn *conn, const struct segment *s, uint16_t *reason)
{
    struct tcp_receiving *rx = &conn->rx;
    const struct vipl_ddp *ddp = &s->ddp;
    uint64_t extent = extent_of_write(rx, ddp, s->left);
    bool before = rx->write_refused;
    *reason = 0;
    rx->write_refused = before || !vipl_up_rdma_allowed(conn->vi, true, ddp->stag, ddp->offset, extent);
    if (rx->write_refused && !before) {
        bool beyond = extent == UINT64_MAX;
        *reason = beyond ? VIPL_TERM_DDP_TAGGED_BOUNDS
                         : vipl_tcp_memory_reason(conn, true, ddp->stag, ddp->offset, extent);
    }
    return !rx->write_refused;
}

/* The first segment of an RDMA Write. Where there are several, a VIPL peer begins with an empty one whose offset
 * is the end of the message. False: it does not. */
static bool begin_write(struct tcp_conn *conn, const struct segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    bool empty = s->left == 0;
    rx->writing = true;
    rx->write_bytes = 0;
    rx->write_refused = false;
    rx->announced = !conn->foreign && !s->ddp.last && empty;
    rx->write_end = s->ddp.offset;
    return conn->foreign || s->ddp.last || empty;
}

static bool on_write(struct tcp_conn *conn, struct segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    uint16_t reason;
    if (!rx->writing && !begin_write(conn, s)) {
        return give_up(conn, VIPL_TERM_RDMAP_UNSPECIFIED, &s->ddp);
    }
    vipl_up_recv_lock(conn->vi);
    bool allowed = write_allowed(conn, s, &reason);
    struct vipl_sg to;
    vipl_sg_one(&to, (void *)(uintptr_t)s->ddp.offset, s->left);
    if (!place(conn, s, allowed ? &to : NULL, 0)) {
        vipl_up_rdma_refuse(conn->vi, true);
        rx->write_refused = true;
        reason = VIPL_TERM_DDP_TAGGED_STAG;
    }
    rx->write_bytes += (uint32_t)s->bytes;
    rx->writing = !ends_message(s);
    return unlock(conn, reason, &s->ddp);
}

/* The empty read behind a message has come: the message's receive completes. The response is sent before the
 * lock is free that VipDisconnect needs. The VI's receive lock is held. */
static void finish_held(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    bool drop = rx->held_drop;
    rx->held = TCP_HELD_NOT;
    rx->held_drop = false;
    if (!drop && vipl_up_recv_claim(conn->vi, 0, NULL) == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(conn->vi, 0, rx->held_bytes, rx->held_write,
                            rx->held_has_immediate ? &rx->held_immediate : NULL);
    }
}

static bool on_read(struct tcp_conn *conn, struct segment *s)
{
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
    if (!allowed) {
        reason = vipl_tcp_memory_reason(conn, false, read.source_stag, read.source_offset, read.bytes);
    }
    if (!unlock_about(conn, reason, &(struct tcp_about){.ddp = &s->ddp, .read = &read})) {
        return false;
    }
    if (!allowed) { /* an unreliable VI responds to none */
        return give_up(conn, VIPL_TERM_RDMAP_OPCODE, &s->ddp);
    }
    if (!vipl_tcp_respond(conn, &(struct tcp_read_response){read, s->ddp.msn})) { /* more than were agreed */
        return give_up(conn, VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, &s->ddp);
    }
    return !conn->broken;
}

/* A response's payload. False: it is longer or shorter than what was to be read, or not what comes next. */
static bool place_response(struct tcp_conn *conn, struct segment *s, const struct tcp_pending *p)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_sg to;
    uint32_t missing = (p->confirms ? 0 : p->bytes) - rx->response_bytes;
    if (s->ddp.offset != rx->response_bytes || s->left > missing || (s->ddp.last && s->left != missing)) {
        return false;
    }
    if (s->left > 0) {
        vipl_up_send_lock(conn->vi);
        bool there = !rx->response_lost && vipl_up_read_target(conn->vi, p->sequence, &to);
        rx->response_lost = !place(conn, s, there ? &to : NULL, rx->response_bytes) || !there;
        vipl_up_send_unlock(conn->vi);
    }
    rx->response_bytes += (uint32_t)s->bytes;
    return true;
}

static bool on_response(struct tcp_conn *conn, struct segment *s)
{
    struct tcp_receiving *rx = &conn->rx;
    struct tcp_pending p;
    if (!vipl_tcp_oldest_pending(conn, &p) || s->ddp.stag != p.sequence) {
        return give_up(conn, VIPL_TERM_DDP_TAGGED_STAG, &s->ddp);
    }
    if (p.confirms && conn->foreign) { /* siw's contains what siw sent last */
        place(conn, s, NULL, 0);
    } else if (!place_response(conn, s, &p)) {
        return give_up(conn, VIPL_TERM_DDP_TAGGED_BOUNDS, &s->ddp);
    }
    if (!ends_message(s)) {
        return true;
    }
    uint32_t status = rx->response_lost ? VIP_STATUS_PROTECTION_ERROR : 0;
    rx->response_lost = false;
    rx->response_bytes = 0;
    vipl_tcp_end_pending(conn, &p, status);
    return vipl_tcp_still_works(conn);
}

static bool on_terminate(struct tcp_conn *conn, const struct segment *s)
{
    struct vipl_rdmap_terminate terminate;
    if (vipl_rdmap_terminate_read(s->payload, s->bytes, &terminate)) {
        vipl_tcp_terminated(conn, terminate.reason);
        if (!vipl_tcp_still_works(conn)) {
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

/* Whether the FPDU is nothing but the message by which a requester shows that it has our reply. An empty read
 * gets a response, and so is not. */
static bool is_ready_message(struct tcp_conn *conn, struct segment *s)
{
    if (s->ddp.op == VIPL_RDMAP_SEND && conn->foreign && s->bytes == 0 && s->ddp.last && s->ddp.msn == 1 &&
        s->ddp.mo == 0 && vipl_tcp_ready_op(&conn->enhanced) == VIPL_RDMAP_SEND) {
        conn->rx.send_msn++; /* it takes no receive */
        return true;
    }
    return s->ddp.op == VIPL_RDMAP_WRITE && s->bytes == 0 && s->ddp.last;
}

/* The first FPDU. *whole: there is nothing more to it. False: as on_segment(). */
static bool on_first(struct tcp_conn *conn, struct segment *s, bool *whole)
{
    bool was_open = conn->state == TCP_AWAIT_FIRST_FPDU;
    if (!conn->handler->first_fpdu(conn)) {
        return false;
    }
    *whole = !was_open && is_ready_message(conn, s);
    return true;
}

/* False: the connection has broken or ended, and is not to be touched. */
static bool on_segment(struct tcp_conn *conn, struct segment *s)
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
    default: /* no peer may invalidate memory of ours */
        return give_up(conn, VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, &s->ddp);
    }
}

static bool on_ulpdu(struct tcp_conn *conn, const uint8_t *ulpdu, size_t length)
{
    struct segment s = {.error = 0}; /* a header that is too short is not read at all */
    enum vipl_ddp_fault fault = vipl_ddp_read(ulpdu, length, &s.ddp);
    if (fault != VIPL_DDP_OK) {
        bool known = fault != VIPL_DDP_FAULT_SHORT;
        return give_up_about(conn, reason_of_fault(fault, s.ddp.tagged),
                             &(struct tcp_about){.ddp = known ? &s.ddp : NULL, .control = ulpdu});
    }
    s.payload = ulpdu + s.ddp.header_bytes;
    s.bytes = s.left = length - s.ddp.header_bytes;
    if (conn->state != TCP_OPEN) {
        bool whole = false;
        if (!on_first(conn, &s, &whole) || whole) {
            return whole;
        }
    }
    return on_segment(conn, &s);
}

/* --- FPDUs --- */

static size_t fpdu_bytes(const uint8_t *at)
{
    return vipl_mpa_fpdu_bytes(vipl_get16(at));
}

/* A Send of one segment that is the next message and is received without more ado. False: it is not that, and nothing has
 * happened. */
static bool take_send(struct tcp_conn *conn, const uint8_t *fpdu)
{
    struct tcp_receiving *rx = &conn->rx;
    const uint8_t *ulpdu = fpdu + VIPL_MPA_HEADER_BYTES;
    size_t length = vipl_get16(fpdu);
    if (conn->state != TCP_OPEN || conn->confirms_sends || rx->held != TCP_HELD_NOT || rx->mo != 0 ||
        rx->drop || !vipl_ddp_is_whole_send(ulpdu, length, rx->send_msn)) {
        return false;
    }
    bool taken =
        vipl_up_recv_take(conn->vi, ulpdu + VIPL_DDP_UNTAGGED_BYTES, length - VIPL_DDP_UNTAGGED_BYTES);
    rx->send_msn += taken ? 1 : 0;
    return taken;
}

static bool on_fpdu(struct tcp_conn *conn, const uint8_t *fpdu, size_t bytes)
{
    if (conn->crc && !vipl_mpa_crc_is_right(fpdu, bytes)) {
        return give_up(conn, VIPL_TERM_MPA_CRC, NULL);
    }
    return take_send(conn, fpdu) ? vipl_tcp_still_works(conn)
                                 : on_ulpdu(conn, fpdu + VIPL_MPA_HEADER_BYTES, vipl_get16(fpdu));
}

/* --- FPDUs that are not all there --- */

/* The reassembly buffer is to get `need` bytes, of which the first `have` are there. */
static bool collect(struct tcp_conn *conn, size_t need, const uint8_t *from, size_t have)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t *before = rx->buffer;
    if (need > rx->size) {
        uint8_t *larger = vipl_alloc(need);
        if (larger == NULL) {
            return give_up(conn, VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC, NULL);
        }
        rx->buffer = larger;
        rx->size = need;
    }
    memmove(rx->buffer, from, have);
    if (rx->buffer != before) {
        vipl_free(before);
    }
    rx->have = have;
    rx->need = need;
    return true;
}

static void advance(struct vipl_ddp *ddp, size_t bytes)
{
    if (ddp->tagged) {
        ddp->offset += bytes;
    } else {
        ddp->mo += (uint32_t)bytes;
    }
}

/* Whether the rest of an FPDU, of which `have` bytes are there, is to be placed directly. */
static bool is_direct(const struct tcp_conn *conn, const uint8_t *fpdu, size_t have, struct vipl_ddp *ddp)
{
    return !conn->crc && conn->state == TCP_OPEN && have >= VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES &&
           vipl_get16(fpdu) > have + DIRECT_MIN &&
           vipl_ddp_read(fpdu + VIPL_MPA_HEADER_BYTES, have - VIPL_MPA_HEADER_BYTES, ddp) == VIPL_DDP_OK &&
           (ddp->op == VIPL_RDMAP_SEND || ddp->op == VIPL_RDMAP_SEND_SE || ddp->op == VIPL_RDMAP_WRITE ||
            ddp->op == VIPL_RDMAP_READ_RESPONSE);
}

/* Places what has come of such an FPDU. The tail has whole items where the payload's memory is aligned. */
static bool begin_direct(struct tcp_conn *conn, const uint8_t *fpdu, size_t have, const struct vipl_ddp *ddp)
{
    struct tcp_receiving *rx = &conn->rx;
    size_t head = VIPL_MPA_HEADER_BYTES + ddp->header_bytes;
    struct segment s = {.ddp = *ddp, .payload = fpdu + head, .bytes = have - head};
    s.ddp.segment_bytes = vipl_get16(fpdu);
    s.left = s.ddp.segment_bytes - ddp->header_bytes;
    rx->large = EXPECTED;
    rx->tail = ITEM + s.left % ITEM;
    rx->direct = s.left - s.bytes - rx->tail;
    rx->ddp = s.ddp;
    advance(&rx->ddp, s.bytes);
    return on_segment(conn, &s);
}

/* The last bytes of an FPDU that was placed directly are in the reassembly buffer. */
static bool on_tail(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    struct segment s = {.ddp = rx->ddp, .payload = rx->buffer, .bytes = rx->tail, .left = rx->tail};
    rx->tail = 0;
    return on_segment(conn, &s);
}

/* --- the stream --- */

/* Takes note of an FPDU that came whole: where large ones come, more of them may follow, and little is received
 * beyond what is known of. */
static void expect(struct tcp_receiving *rx, size_t fpdu)
{
    if (fpdu >= LARGE) {
        rx->large = EXPECTED;
    } else if (rx->large > 0) {
        rx->large--;
    }
}

/* FPDUs in a row; of the last there may be a part. */
static bool on_fpdus(struct tcp_conn *conn, const uint8_t *at, size_t left)
{
    while (left > 0) {
        struct vipl_ddp ddp;
        size_t bytes = left < VIPL_MPA_HEADER_BYTES ? VIPL_MPA_HEADER_BYTES : fpdu_bytes(at);
        if (bytes > left) {
            return is_direct(conn, at, left, &ddp) ? begin_direct(conn, at, left, &ddp)
                                                   : collect(conn, bytes, at, left);
        }
        expect(&conn->rx, bytes);
        if (!on_fpdu(conn, at, bytes)) {
            return false;
        }
        at += bytes;
        left -= bytes;
    }
    return true;
}

/* The reassembly buffer has got `n` more bytes: of a length field, of an FPDU, or of the last payload of one. */
static bool on_collected(struct tcp_conn *conn, size_t n)
{
    struct tcp_receiving *rx = &conn->rx;
    size_t bytes = rx->need;
    rx->have += n;
    if (rx->have < bytes) {
        return true;
    }
    if (bytes == VIPL_MPA_HEADER_BYTES) {
        return collect(conn, fpdu_bytes(rx->buffer), rx->buffer, bytes);
    }
    rx->have = rx->need = 0;
    return rx->tail > 0 ? on_tail(conn) : on_fpdu(conn, rx->buffer, bytes);
}

static bool on_stream(struct tcp_conn *conn, const uint8_t *at, size_t left)
{
    struct tcp_receiving *rx = &conn->rx;
    while (left > 0 && rx->need > 0) {
        size_t lacks = rx->need - rx->have;
        size_t n = left < lacks ? left : lacks;
        memcpy(rx->buffer + rx->have, at, n);
        if (!on_collected(conn, n)) {
            return false;
        }
        at += n;
        left -= n;
    }
    return on_fpdus(conn, at, left);
}

static void note_arrival(struct tcp_conn *conn)
{
    conn->readable = true;
    conn->nic->hot = conn;
    conn->nic->heard = true;
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
    note_arrival(conn);
    return true;
}

/* What a system call brought: what the reassembly buffer lacks is in there, the rest in `scratch`. True: there may be more. */
static bool on_received(struct tcp_conn *conn, int error, size_t n, size_t lacks, size_t room)
{
    if (!arrived(conn, error, n)) {
        return false;
    }
    size_t collected = n < lacks ? n : lacks;
    if (collected > 0 && !on_collected(conn, collected)) {
        return false;
    }
    return on_stream(conn, conn->nic->scratch, n - collected) && (n == lacks + room || conn->rx.direct > 0);
}

/* One system call, while no FPDU is placed directly. True: there may be more. */
static bool receive_stream(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t *scratch = conn->nic->scratch;
    size_t room = rx->large > 0 ? ROOM : TCP_SCRATCH;
    size_t lacks = rx->need - rx->have;
    struct vipl_iov pieces[2] = {{rx->buffer + rx->have, lacks}, {scratch, room}};
    unsigned skip = lacks == 0 ? 1 : 0;
    size_t n = 0;
    int error = vipl_socket_receive(conn->fd, pieces + skip, 2 - skip, &n);
    return on_received(conn, error, n, lacks, room);
}

/* One system call, while an FPDU is placed directly. True: there may be more. */
static bool receive_direct(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    struct segment s = {.ddp = rx->ddp, .bytes = rx->direct, .left = rx->direct + rx->tail};
    size_t room = rx->direct + ROOM;
    if (!on_segment(conn, &s)) {
        return false;
    }
    if (s.error == EFAULT) { /* what is still to come is dropped */
        return true;
    }
    if (!arrived(conn, s.error, s.received)) {
        return false;
    }
    rx->direct -= s.bytes;
    advance(&rx->ddp, s.bytes);
    if (rx->direct > 0) {
        return true;
    }
    size_t trailer = vipl_mpa_pad(rx->ddp.segment_bytes) + VIPL_MPA_CRC_BYTES;
    return collect(conn, rx->tail + trailer, s.rest, 0) && on_stream(conn, s.rest, s.received - s.bytes) &&
           s.received == room;
}

static void receive(struct tcp_conn *conn, bool more, int turns)
{
    for (int i = 0; i < turns && more && !conn->broken; i++) {
        more = conn->rx.direct > 0 ? receive_direct(conn) : receive_stream(conn);
    }
}

void vipl_tcp_receive(struct tcp_conn *conn)
{
    receive(conn, true, TCP_POLL_BUDGET);
}

/* What has come is one message that is received without more ado: nothing in there is a point at which a thread may be cancelled. */
static bool take_alone(struct tcp_conn *conn, const uint8_t *at, size_t n)
{
    if (n < VIPL_MPA_HEADER_BYTES || fpdu_bytes(at) != n || (conn->crc && !vipl_mpa_crc_is_right(at, n)) ||
        !take_send(conn, at)) {
        return false;
    }
    note_arrival(conn);
    expect(&conn->rx, n);
    (void)vipl_tcp_still_works(conn);
    return true;
}

static VIPL_NOINLINE void on_arrival(struct tcp_conn *conn, int error, size_t n, size_t room)
{
    int cancel = vipl_cancel_off();
    receive(conn, on_received(conn, error, n, 0, room), TCP_POLL_BUDGET - 1);
    vipl_cancel_restore(cancel);
}

bool vipl_tcp_receive_fast(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_iov room = {conn->nic->scratch, rx->large > 0 ? ROOM : TCP_SCRATCH};
    size_t n = 0;
    if (conn->state != TCP_OPEN || conn->broken || rx->need > 0 || rx->direct > 0) {
        return false;
    }
    int error = vipl_socket_receive(conn->fd, &room, 1, &n);
    if (error != EAGAIN && !(error == 0 && take_alone(conn, room.base, n))) {
        on_arrival(conn, error, n, room.len);
    }
    return true;
}
