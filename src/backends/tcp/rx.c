/* SPDX-License-Identifier: MIT */
/*
 * Receiving. Everything that a peer sends is checked before it is acted on. An error of the peer
 * costs the peer its connection, and nothing else.
 *
 * One system call fills a buffer with many FPDUs, and each is placed from there. Of an FPDU that
 * has come in part, either the rest goes to the reassembly buffer or, if much payload is missing
 * and there is no CRC, the rest is placed directly: it is received into the memory that it is for.
 * The last few bytes then go through the reassembly buffer, because they must be stored last and
 * whole: they make an RDMA Write visible in order. The memory may change between two system calls.
 * So it is looked up again for each, and the system call is made under the VI's lock: nothing is
 * placed in memory that has been deregistered. What may not be placed is received and dropped.
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
    DIRECT_MIN = 8 * 1024,  /* so much missing payload is worth a system call of its own */
    LARGE_FPDU = 48 * 1024, /* bytes of an FPDU after which more large ones are expected */
    MAX_SMALL_BETWEEN = 4,  /* smaller FPDUs that may come between large ones */
    NEXT_HEAD_BYTES = 512,  /* bytes received beyond a large FPDU: the head of the next one */
    ITEM_BYTES = 8          /* bytes that are stored whole */
};

/* A DDP segment, or a part of one. */
struct segment {
    struct vipl_ddp ddp;
    /* NULL: the payload is in the socket, and is placed directly from there */
    const uint8_t *payload;
    /* Payload bytes in this part; from the socket at most that number, and afterwards what came. */
    size_t bytes;
    size_t left;         /* bytes from this part's first one to the segment's last one */
    int error;           /* from the socket: an errno value if nothing came, or 0 */
    size_t received;     /* from the socket: bytes received, with those after the payload */
    const uint8_t *rest; /* the bytes after the payload */
};

/* The peer breaks the protocol: sends a Terminate, and fails the connection. Returns false. */
static bool terminate_stream_about(struct tcp_conn *conn, uint16_t reason,
                                   const struct tcp_terminate_about *about)
{
    vipl_tcp_terminate(conn, reason, about);
    vipl_tcp_conn_fail(conn, VIP_ERROR_RDMA_TRANSPORT);
    return false;
}

static bool terminate_stream(struct tcp_conn *conn, uint16_t reason, const struct vipl_ddp *ddp)
{
    return terminate_stream_about(conn, reason, &(struct tcp_terminate_about){.ddp = ddp});
}

/* Releases the VI's receive lock. Sends the reason, if there is one, to the peer of a reliable VI.
 * Returns false if the VI has failed. */
static bool unlock_recv_about(struct tcp_conn *conn, uint16_t reason, const struct tcp_terminate_about *about)
{
    vipl_up_recv_unlock(conn->vi);
    if (reason != 0 && !conn->unreliable) {
        vipl_tcp_terminate(conn, reason, about);
    }
    return vipl_tcp_still_works(conn);
}

static bool unlock_recv(struct tcp_conn *conn, uint16_t reason, const struct vipl_ddp *ddp)
{
    return unlock_recv_about(conn, reason, &(struct tcp_terminate_about){.ddp = ddp});
}

/* Whether the part has the message's last byte. */
static bool ends_message(const struct segment *s)
{
    return s->ddp.last && s->left == s->bytes;
}

/* --- placing payload --- */

/* Receives by one system call: the payload into `to` (NULL: it is dropped), what follows it into
 * the scratch buffer. */
static bool place_from_socket(struct tcp_conn *conn, struct segment *s, const struct vipl_sg *to,
                              size_t offset)
{
    uint8_t *scratch = conn->nic->scratch;
    struct vipl_iov *pieces = conn->nic->pieces;
    unsigned count = to == NULL ? 0 : vipl_iov_slice(pieces, to, offset, s->bytes);
    pieces[count] = (struct vipl_iov){scratch, NEXT_HEAD_BYTES + (to == NULL ? s->bytes : 0)};
    s->received = 0;
    s->error = vipl_socket_receive(conn->fd, pieces, count + 1, &s->received);
    s->bytes = s->received < s->bytes ? s->received : s->bytes;
    s->rest = scratch + (to == NULL ? s->bytes : 0);
    return s->error != EFAULT;
}

/* Places the payload, from the buffer or from the socket; `to` NULL: it is dropped. Returns false
 * if memory is missing; payload in the socket is then still to come. */
static bool place_payload(struct tcp_conn *conn, struct segment *s, const struct vipl_sg *to, size_t offset)
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
    return s->ddp.msn != rx->send_msn                                  ? VIPL_TERM_DDP_UNTAGGED_MSN
           : rx->held != TCP_HELD_NOT /* the one before is not over */ ? VIPL_TERM_RDMAP_OPCODE
           : s->ddp.mo != rx->mo || s->left > UINT32_MAX - rx->mo      ? VIPL_TERM_DDP_UNTAGGED_MO
                                                                       : 0;
}

/* Places a part of a Send. Returns the reason for a Terminate, or 0. The VI's receive lock is held,
 * here and in end_send(). */
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
    if (!place_payload(conn, s, rx->drop ? NULL : &to, rx->mo)) {
        vipl_up_recv_finish(conn->vi, VIP_STATUS_PROTECTION_ERROR, 0, false, NULL);
        rx->drop = true;
        reason = claim_reason(VIPL_CLAIM_FAILED);
    }
    rx->mo += (uint32_t)s->bytes;
    return reason;
}

/* A Send has come whole. */
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
        return terminate_stream(conn, fault, &s->ddp);
    }
    vipl_up_recv_lock(conn->vi);
    uint16_t reason = place_send(conn, s);
    if (ends_message(s)) {
        end_send(conn, s->ddp.op);
    }
    return unlock_recv(conn, reason, &s->ddp);
}

/* What is wrong with a message that must be one segment of `bytes` bytes; 0: nothing. */
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
    /* the previous message is not over */
    if (fault != 0 || rx->mo != 0 || rx->held == TCP_HELD_FOR_READ) {
        return terminate_stream(conn, fault != 0 ? fault : VIPL_TERM_RDMAP_OPCODE, &s->ddp);
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
    return unlock_recv(conn, claim_reason(claim), &s->ddp);
}

/* --- RDMA --- */

/* How many bytes the peer must be allowed to write before a segment is placed: those to the
 * message's end, if that is known. A segment that goes beyond the end, is the last one and stops
 * before the end, or is farther from the end than a message may be long, needs more bytes than
 * any region has. */
static uint64_t extent_of_write(const struct tcp_receiving *rx, const struct vipl_ddp *ddp, size_t bytes)
{
    uint64_t left = rx->write_end - ddp->offset;
    bool fits = bytes <= left && left <= TCP_TRANSFER_SIZE && (!ddp->last || bytes == left);
    return !rx->announced ? bytes : fits ? left : UINT64_MAX;
}

/* Whether the segment's payload, and all that is still to come of the message, may be
 * placed. *reason: what to send to the peer; 0: nothing, or it has been sent. The VI's
 * receive lock is held. */
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

/* Begins an RDMA Write. One of several segments begins with an empty one from a VIPL peer, whose
 * offset is the end of the message. Returns false if it does not. */
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
        return terminate_stream(conn, VIPL_TERM_RDMAP_UNSPECIFIED, &s->ddp);
    }
    vipl_up_recv_lock(conn->vi);
    bool allowed = write_allowed(conn, s, &reason);
    struct vipl_sg to;
    vipl_sg_one(&to, (void *)(uintptr_t)s->ddp.offset, s->left);
    if (!place_payload(conn, s, allowed ? &to : NULL, 0)) {
        vipl_up_rdma_refuse(conn->vi, true);
        rx->write_refused = true;
        reason = VIPL_TERM_DDP_TAGGED_STAG;
    }
    rx->write_bytes += (uint32_t)s->bytes;
    rx->writing = !ends_message(s);
    return unlock_recv(conn, reason, &s->ddp);
}

/* The empty read that confirms a message has come: completes the message's receive. The VI's
 * receive lock is held. The response is sent before the device's lock, which VipDisconnect()
 * needs, is released. */
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
        return terminate_stream(conn, reason, &s->ddp);
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
    if (!unlock_recv_about(conn, reason, &(struct tcp_terminate_about){.ddp = &s->ddp, .read = &read})) {
        return false;
    }
    if (!allowed) { /* an unreliable VI responds to no read */
        return terminate_stream(conn, VIPL_TERM_RDMAP_OPCODE, &s->ddp);
    }
    /* more reads than were agreed */
    if (!vipl_tcp_respond(conn, &(struct tcp_read_response){read, s->ddp.msn})) {
        return terminate_stream(conn, VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, &s->ddp);
    }
    return !conn->broken;
}

/* Places a response's payload. Returns false if it is longer or shorter than the read, or not the
 * next part of the response. */
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
        rx->response_lost = !place_payload(conn, s, there ? &to : NULL, rx->response_bytes) || !there;
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
        return terminate_stream(conn, VIPL_TERM_DDP_TAGGED_STAG, &s->ddp);
    }
    if (p.confirms && conn->foreign) { /* siw's response contains what siw sent last */
        place_payload(conn, s, NULL, 0);
    } else if (!place_response(conn, s, &p)) {
        return terminate_stream(conn, VIPL_TERM_DDP_TAGGED_BOUNDS, &s->ddp);
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

/* Whether the FPDU is no more than the message by which a requester shows that it has the reply. An
 * empty read gets a response, and so is handled as any other. */
static bool is_ready_message(struct tcp_conn *conn, struct segment *s)
{
    if (s->ddp.op == VIPL_RDMAP_SEND && conn->foreign && s->bytes == 0 && s->ddp.last && s->ddp.msn == 1 &&
        s->ddp.mo == 0 && vipl_tcp_ready_op(&conn->enhanced) == VIPL_RDMAP_SEND) {
        conn->rx.send_msn++; /* the message takes no receive */
        return true;
    }
    return s->ddp.op == VIPL_RDMAP_WRITE && s->bytes == 0 && s->ddp.last;
}

/* The first FPDU. *whole: it needs no further handling. Returns as on_segment() does. */
static bool on_first(struct tcp_conn *conn, struct segment *s, bool *whole)
{
    bool was_open = conn->state == TCP_AWAIT_FIRST_FPDU;
    if (!conn->handler->first_fpdu(conn)) {
        return false;
    }
    *whole = !was_open && is_ready_message(conn, s);
    return true;
}

/* Handles a segment. Returns false if the connection has broken or ended: the caller must
 * not touch it. */
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
    default: /* no peer may invalidate memory of this process */
        return terminate_stream(conn, VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, &s->ddp);
    }
}

static bool on_ulpdu(struct tcp_conn *conn, const uint8_t *ulpdu, size_t length)
{
    struct segment s = {.error = 0}; /* a header that is too short is not read */
    enum vipl_ddp_fault fault = vipl_ddp_read(ulpdu, length, &s.ddp);
    if (fault != VIPL_DDP_OK) {
        bool known = fault != VIPL_DDP_FAULT_SHORT;
        return terminate_stream_about(
            conn, reason_of_fault(fault, s.ddp.tagged),
            &(struct tcp_terminate_about){.ddp = known ? &s.ddp : NULL, .control = ulpdu});
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

/* Receives a Send of one segment, if it is the next message and nothing else is under way. Returns
 * false, and changes nothing, otherwise. */
static bool take_whole_send(struct tcp_conn *conn, const uint8_t *fpdu)
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
        return terminate_stream(conn, VIPL_TERM_MPA_CRC, NULL);
    }
    return take_whole_send(conn, fpdu) ? vipl_tcp_still_works(conn)
                                       : on_ulpdu(conn, fpdu + VIPL_MPA_HEADER_BYTES, vipl_get16(fpdu));
}

/* --- FPDUs that have come in part --- */

/* Starts to reassemble `need` bytes, of which the first `have` are at `from`. */
static bool begin_reassembly(struct tcp_conn *conn, size_t need, const uint8_t *from, size_t have)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t *before = rx->buffer;
    if (need > rx->size) {
        uint8_t *larger = vipl_alloc(need);
        if (larger == NULL) {
            return terminate_stream(conn, VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC, NULL);
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

static void advance_ddp(struct vipl_ddp *ddp, size_t bytes)
{
    if (ddp->tagged) {
        ddp->offset += bytes;
    } else {
        ddp->mo += (uint32_t)bytes;
    }
}

/* Whether the rest of an FPDU is placed directly. `have` of its bytes are there. */
static bool is_direct(const struct tcp_conn *conn, const uint8_t *fpdu, size_t have, struct vipl_ddp *ddp)
{
    return !conn->crc && conn->state == TCP_OPEN && have >= VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES &&
           vipl_get16(fpdu) > have + DIRECT_MIN &&
           vipl_ddp_read(fpdu + VIPL_MPA_HEADER_BYTES, have - VIPL_MPA_HEADER_BYTES, ddp) == VIPL_DDP_OK &&
           (ddp->op == VIPL_RDMAP_SEND || ddp->op == VIPL_RDMAP_SEND_SE || ddp->op == VIPL_RDMAP_WRITE ||
            ddp->op == VIPL_RDMAP_READ_RESPONSE);
}

/* Places what has come of such an FPDU. Its tail has whole items if the memory is aligned. */
static bool begin_direct(struct tcp_conn *conn, const uint8_t *fpdu, size_t have, const struct vipl_ddp *ddp)
{
    struct tcp_receiving *rx = &conn->rx;
    size_t head = VIPL_MPA_HEADER_BYTES + ddp->header_bytes;
    struct segment s = {.ddp = *ddp, .payload = fpdu + head, .bytes = have - head};
    s.ddp.segment_bytes = vipl_get16(fpdu);
    s.left = s.ddp.segment_bytes - ddp->header_bytes;
    rx->expect_large = MAX_SMALL_BETWEEN;
    rx->tail = ITEM_BYTES + s.left % ITEM_BYTES;
    rx->direct = s.left - s.bytes - rx->tail;
    rx->ddp = s.ddp;
    advance_ddp(&rx->ddp, s.bytes);
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

/* Notes the size of an FPDU that came whole. After a large one more are expected, and little is
 * then received beyond the FPDU that has begun. */
static void note_fpdu_size(struct tcp_receiving *rx, size_t fpdu)
{
    if (fpdu >= LARGE_FPDU) {
        rx->expect_large = MAX_SMALL_BETWEEN;
    } else if (rx->expect_large > 0) {
        rx->expect_large--;
    }
}

/* Handles FPDUs in a row, the last of which may be there in part. */
static bool on_fpdus(struct tcp_conn *conn, const uint8_t *at, size_t left)
{
    while (left > 0) {
        struct vipl_ddp ddp;
        size_t bytes = left < VIPL_MPA_HEADER_BYTES ? VIPL_MPA_HEADER_BYTES : fpdu_bytes(at);
        if (bytes > left) {
            return is_direct(conn, at, left, &ddp) ? begin_direct(conn, at, left, &ddp)
                                                   : begin_reassembly(conn, bytes, at, left);
        }
        note_fpdu_size(&conn->rx, bytes);
        if (!on_fpdu(conn, at, bytes)) {
            return false;
        }
        at += bytes;
        left -= bytes;
    }
    return true;
}

/* The reassembly buffer has `n` more bytes: of a length field, of an FPDU, or of an FPDU's tail. */
static bool on_reassembled(struct tcp_conn *conn, size_t n)
{
    struct tcp_receiving *rx = &conn->rx;
    size_t bytes = rx->need;
    rx->have += n;
    if (rx->have < bytes) {
        return true;
    }
    if (bytes == VIPL_MPA_HEADER_BYTES) {
        return begin_reassembly(conn, fpdu_bytes(rx->buffer), rx->buffer, bytes);
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
        if (!on_reassembled(conn, n)) {
            return false;
        }
        at += n;
        left -= n;
    }
    return on_fpdus(conn, at, left);
}

static void note_arrival(struct tcp_conn *conn)
{
    struct tcp_nic *nic = conn->nic;
    bool again = nic->hot == conn && nic->hot_has_received;
    conn->readable = true;
    nic->hot_streak = !again ? 0 : nic->hot_streak < TCP_MAX_STREAK ? nic->hot_streak + 1 : TCP_MAX_STREAK;
    nic->hot = conn;
    nic->hot_has_received = true;
}

/* Checks what a system call returned. Returns false if it brought nothing. */
static bool check_arrival(struct tcp_conn *conn, int error, size_t n)
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

/* Handles what a system call brought: first the bytes that the reassembly buffer lacked, which are
 * in there, then those in `scratch`. Returns true if there may be more. */
static bool on_received(struct tcp_conn *conn, int error, size_t n, size_t lacks, size_t room)
{
    if (!check_arrival(conn, error, n)) {
        return false;
    }
    size_t collected = n < lacks ? n : lacks;
    if (collected > 0 && !on_reassembled(conn, collected)) {
        return false;
    }
    return on_stream(conn, conn->nic->scratch, n - collected) && (n == lacks + room || conn->rx.direct > 0);
}

/* Receives by one system call while no FPDU is placed directly. Returns true if there
 * may be more. */
static bool receive_stream(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t *scratch = conn->nic->scratch;
    size_t room = rx->expect_large > 0 ? NEXT_HEAD_BYTES : TCP_SCRATCH;
    size_t lacks = rx->need - rx->have;
    struct vipl_iov pieces[2] = {{rx->buffer + rx->have, lacks}, {scratch, room}};
    unsigned skip = lacks == 0 ? 1 : 0;
    size_t n = 0;
    int error = vipl_socket_receive(conn->fd, pieces + skip, 2 - skip, &n);
    return on_received(conn, error, n, lacks, room);
}

/* Receives by one system call while an FPDU is placed directly. Returns true if there
 * may be more. */
static bool receive_direct(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    struct segment s = {.ddp = rx->ddp, .bytes = rx->direct, .left = rx->direct + rx->tail};
    size_t room = rx->direct + NEXT_HEAD_BYTES;
    if (!on_segment(conn, &s)) {
        return false;
    }
    if (s.error == EFAULT) { /* the rest of the payload is dropped */
        return true;
    }
    if (!check_arrival(conn, s.error, s.received)) {
        return false;
    }
    rx->direct -= s.bytes;
    advance_ddp(&rx->ddp, s.bytes);
    if (rx->direct > 0) {
        return true;
    }
    size_t trailer = vipl_mpa_pad(rx->ddp.segment_bytes) + VIPL_MPA_CRC_BYTES;
    return begin_reassembly(conn, rx->tail + trailer, s.rest, 0) &&
           on_stream(conn, s.rest, s.received - s.bytes) && s.received == room;
}

static void receive_up_to(struct tcp_conn *conn, bool more, int turns)
{
    for (int i = 0; i < turns && more && !conn->broken; i++) {
        more = conn->rx.direct > 0 ? receive_direct(conn) : receive_stream(conn);
    }
}

void vipl_tcp_receive(struct tcp_conn *conn)
{
    receive_up_to(conn, true, TCP_POLL_BUDGET);
}

/* If one whole message has come, receives it by take_whole_send(). No function on this path is
 * a cancellation point. */
static bool take_single_message(struct tcp_conn *conn, const uint8_t *at, size_t n)
{
    if (n < VIPL_MPA_HEADER_BYTES || fpdu_bytes(at) != n || (conn->crc && !vipl_mpa_crc_is_right(at, n)) ||
        !take_whole_send(conn, at)) {
        return false;
    }
    note_arrival(conn);
    note_fpdu_size(&conn->rx, n);
    (void)vipl_tcp_still_works(conn);
    return true;
}

static VIPL_NOINLINE void on_arrival(struct tcp_conn *conn, int error, size_t n, size_t room)
{
    int cancel = vipl_cancel_off();
    receive_up_to(conn, on_received(conn, error, n, 0, room), TCP_POLL_BUDGET - 1);
    vipl_cancel_restore(cancel);
}

bool vipl_tcp_receive_fast(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    struct vipl_iov room = {conn->nic->scratch, rx->expect_large > 0 ? NEXT_HEAD_BYTES : TCP_SCRATCH};
    size_t n = 0;
    if (conn->state != TCP_OPEN || conn->broken || rx->need > 0 || rx->direct > 0) {
        return false;
    }
    int error = vipl_socket_receive(conn->fd, &room, 1, &n);
    if (error != EAGAIN && !(error == 0 && take_single_message(conn, room.base, n))) {
        on_arrival(conn, error, n, room.len);
    }
    return true;
}
