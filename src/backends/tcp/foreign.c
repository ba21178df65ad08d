/* SPDX-License-Identifier: MIT */
/*
 * Peers that speak iWARP and are not one of us: what they are taken for, how MPA's set-up goes with them (RFC 5044,
 * RFC 6581), FPDUs that fit TCP's segments, and markers for who asks for them. What is the same for all peers is
 * where it always is.
 */
#include <errno.h>
#include <string.h>

#include "backends/tcp/tcp.h"
#include "base/iov.h"
#include "iwarp/bytes.h"

/* RFC 6581: no depth is told. */
enum {
    DEPTH_UNTOLD = 0x3FFF,
    FPDU_OVERHEAD = VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_MPA_CRC_BYTES
};

void vipl_tcp_foreign_facts(struct vipl_vi_params *out)
{
    *out = (struct vipl_vi_params){.max_transfer_size = TCP_TRANSFER_SIZE,
                                   .reliability = VIP_SERVICE_RELIABLE_DELIVERY,
                                   .rdma_write = true,
                                   .rdma_read = true,
                                   .foreign = true};
}

/* --- set-up --- */

static uint16_t depth(uint16_t told)
{
    return told < TCP_FOREIGN_READS ? told : TCP_FOREIGN_READS;
}

uint8_t vipl_tcp_ready_op(const struct vipl_mpa_enhanced *agreed)
{
    return agreed->rtr_write  ? VIPL_RDMAP_WRITE
           : agreed->rtr_read ? VIPL_RDMAP_READ_REQUEST
           : agreed->rtr_send ? VIPL_RDMAP_SEND
                              : VIPL_RDMAP_WRITE; /* who wants one and names none */
}

struct vipl_mpa_enhanced vipl_tcp_foreign_answer(const struct vipl_mpa_enhanced *theirs)
{
    uint8_t op = vipl_tcp_ready_op(theirs);
    bool ready = theirs->peer_to_peer;
    return (struct vipl_mpa_enhanced){.ird = depth(theirs->ord),
                                      .ord = depth(theirs->ird),
                                      .peer_to_peer = ready,
                                      .rtr_send = ready && op == VIPL_RDMAP_SEND,
                                      .rtr_write = ready && op == VIPL_RDMAP_WRITE,
                                      .rtr_read = ready && op == VIPL_RDMAP_READ_REQUEST};
}

bool vipl_tcp_foreign_gets_ready(const struct tcp_conn *conn)
{
    return conn->start.enhanced && conn->enhanced.peer_to_peer;
}

/* --- until the peer is heard --- */

enum { NUDGE_MS = 50, NUDGES = 4 };

void vipl_tcp_foreign_fresh(struct tcp_conn *conn, bool quiet)
{
    conn->state = TCP_FRESH;
    conn->tx.quiet = quiet; /* nobody posts yet */
    vipl_tcp_conn_deadline(conn, quiet ? 0 : NUDGE_MS);
}

/* siw as responder overlooks what comes between its reply and the change of its socket's callbacks, until something
 * else comes. An empty RDMA Write does, and is nothing to whoever had heard already. */
void vipl_tcp_foreign_nudge(struct tcp_conn *conn)
{
    vipl_tcp_nudge(conn);
    if (++conn->nudges < NUDGES) {
        vipl_tcp_conn_deadline(conn, NUDGE_MS << 2 * conn->nudges);
    }
}

/* What was posted while the peer was to speak first may go. */
bool vipl_tcp_foreign_heard(struct tcp_conn *conn)
{
    struct tcp_sending *tx = &conn->tx;
    conn->state = TCP_OPEN;
    vipl_tcp_conn_deadline(conn, 0);
    vipl_mutex_lock(&tx->lock);
    bool resume = tx->quiet && tx->blocked;
    tx->quiet = false;
    vipl_mutex_unlock(&tx->lock);
    if (resume) {
        vipl_up_send_resume(conn->vi);
    }
    return vipl_tcp_still_works(conn);
}

/* --- FPDUs that fit TCP's segments --- */

static uint32_t segment_bytes(const struct tcp_conn *conn)
{
    uint32_t emss = vipl_socket_segment_bytes(conn->fd) & ~3u;
    uint32_t most = TCP_SEGMENT;
    if (conn->marking != NULL) {
        uint32_t markers = (emss + VIPL_MPA_MARKER_SPACING - 1) / VIPL_MPA_MARKER_SPACING;
        emss -= markers * VIPL_MPA_MARKER_BYTES;
        most = conn->marking->most;
    }
    return emss - FPDU_OVERHEAD < most ? emss - FPDU_OVERHEAD : most;
}

void vipl_tcp_foreign_resegment(struct tcp_conn *conn)
{
    conn->segment = segment_bytes(conn);
}

bool vipl_tcp_foreign_post(struct tcp_conn *conn, struct vipl_send *send)
{
    bool unread = send->op == VIP_CONTROL_OP_RDMAREAD && conn->tx.reads == 0;
    if (send->immediate || unread) {
        send->status = unread ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_FORMAT_ERROR;
        send->refused = true;
        return false;
    }
    vipl_tcp_foreign_resegment(conn);
    return true;
}

/* --- markers --- */

static struct tcp_marking *new_marking(uint32_t segment)
{
    size_t fpdu = FPDU_OVERHEAD + (size_t)segment;
    size_t terminate = vipl_mpa_fpdu_bytes(VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_MAX_TERMINATE_BYTES);
    fpdu = fpdu > terminate ? fpdu : terminate;
    struct tcp_marking *marking = vipl_zalloc(sizeof(*marking) + fpdu + vipl_mpa_marked_bytes(fpdu));
    if (marking != NULL) {
        marking->most = segment;
        marking->plain = (uint8_t *)(marking + 1);
        marking->marked = marking->plain + fpdu;
    }
    return marking;
}

/* A place in a list of pieces. */
struct cursor {
    const struct vipl_iov *piece;
    const struct vipl_iov *end;
    size_t offset;
    bool fault; /* memory of the program's is not there */
};

/* The next bytes of a list; `to` NULL: they are left out. False: it has not so many. */
static bool take(struct cursor *c, uint8_t *to, size_t bytes)
{
    while (bytes > 0 && c->piece < c->end && !c->fault) {
        size_t left = c->piece->len - c->offset;
        size_t n = left < bytes ? left : bytes;
        if (to != NULL) {
            c->fault = !vipl_iov_bytes(to, (const uint8_t *)c->piece->base + c->offset, n);
            to += n;
        }
        bytes -= n;
        c->offset += n;
        if (c->offset == c->piece->len) {
            c->piece++;
            c->offset = 0;
        }
    }
    return bytes == 0 && !c->fault;
}

/* Copies the next FPDU of the list, or leaves it out. Returns its bytes; 0: the list has none, or its memory is not there. */
static size_t take_fpdu(struct tcp_marking *m, struct cursor *c, bool copy)
{
    if (!take(c, m->plain, VIPL_MPA_HEADER_BYTES)) {
        return 0;
    }
    size_t bytes = vipl_mpa_fpdu_bytes(vipl_get16(m->plain));
    uint8_t *rest = copy ? m->plain + VIPL_MPA_HEADER_BYTES : NULL;
    return take(c, rest, bytes - VIPL_MPA_HEADER_BYTES) ? bytes : 0;
}

static int flush(struct tcp_conn *conn)
{
    struct tcp_marking *m = conn->marking;
    struct vipl_iov rest = {m->marked + m->sent, m->have - m->sent};
    size_t n = 0;
    int error = vipl_socket_send(conn->fd, &rest, 1, &n);
    m->sent += n;
    return error == 0 && n < rest.len ? EAGAIN : error;
}

int vipl_tcp_send_marked(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count,
                         struct tcp_cursor *at)
{
    struct tcp_marking *m = conn->marking;
    struct cursor c = {pieces, pieces + count, 0, false};
    for (size_t bytes; (bytes = take_fpdu(m, &c, at->byte == 0)) > 0;) {
        if (at->byte == 0) { /* else it is marked already, and the kernel has not got all of it */
            m->have = vipl_mpa_mark(m->marked, m->plain, bytes, conn->crc, &m->position);
            m->sent = 0;
            at->byte = 1;
        }
        int error = flush(conn);
        if (error != 0) {
            return error;
        }
        at->frame++;
        at->byte = 0;
    }
    return c.fault ? EFAULT : 0;
}

/* --- begin and end --- */

bool vipl_tcp_foreign_begin(struct tcp_conn *conn, const struct vipl_mpa_start *start)
{
    conn->foreign = true;
    conn->tx.reads =
        start->enhanced && conn->enhanced.ird != DEPTH_UNTOLD ? depth(conn->enhanced.ird) : TCP_UNTOLD_READS;
    if (start->markers) {
        uint32_t most = VIPL_MPA_MAX_ULPDU / (VIPL_MPA_MARKER_SPACING) * (VIPL_MPA_MARKER_SPACING - 8);
        uint32_t segment = segment_bytes(conn) & ~3u;
        conn->marking = new_marking(segment < most ? segment : most);
        if (conn->marking == NULL) {
            return false;
        }
    }
    vipl_tcp_foreign_resegment(conn);
    return true;
}

void vipl_tcp_foreign_end(struct tcp_conn *conn)
{
    vipl_free(conn->marking);
    conn->marking = NULL;
}

/* --- Terminate --- */

/* A hint, no more: siw puts layer and type into each other's four bits. Its RDMAP protection looks as DDP's local
 * catastrophe, which nobody sends. */
uint32_t vipl_tcp_foreign_status(uint16_t reason, uint16_t op)
{
    uint16_t kind = reason & 0xFF00;
    bool protection = kind == (VIPL_TERM_RDMAP_INVALID_STAG & 0xFF00) ||
                      kind == (VIPL_TERM_DDP_TAGGED_STAG & 0xFF00) ||
                      kind == (VIPL_TERM_DDP_LOCAL_CATASTROPHIC & 0xFF00);
    bool rdma = op == VIP_CONTROL_OP_RDMAWRITE || op == VIP_CONTROL_OP_RDMAREAD;
    return protection && rdma ? VIP_STATUS_RDMA_PROT_ERROR : VIP_STATUS_TRANSPORT_ERROR;
}
