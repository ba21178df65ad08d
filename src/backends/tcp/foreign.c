/* SPDX-License-Identifier: MIT */
/* FPDUs for foreign peers: each fits a TCP segment, and has markers (RFC 5044) for a peer that
 * asks for them. */
#include "backends/tcp/foreign.h"

#include <errno.h>

#include "base/iov.h"
#include "iwarp/bytes.h"

enum { FPDU_OVERHEAD = VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES + VIPL_MPA_CRC_BYTES };

static uint32_t segment_bytes(const struct tcp_conn *conn)
{
    uint32_t emss = vipl_socket_segment_bytes(conn->fd) & ~3u;
    uint32_t max_payload = TCP_SEGMENT;
    if (conn->marking != NULL) {
        uint32_t markers = (emss + VIPL_MPA_MARKER_SPACING - 1) / VIPL_MPA_MARKER_SPACING;
        emss -= markers * VIPL_MPA_MARKER_BYTES;
        max_payload = conn->marking->max_payload;
    }
    return emss - FPDU_OVERHEAD < max_payload ? emss - FPDU_OVERHEAD : max_payload;
}

void vipl_tcp_resegment(struct tcp_conn *conn)
{
    conn->segment = segment_bytes(conn);
}

/* --- markers --- */

static struct tcp_marking *new_marking(uint32_t segment)
{
    size_t fpdu = FPDU_OVERHEAD + (size_t)segment;
    size_t terminate = vipl_mpa_fpdu_bytes(VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_MAX_TERMINATE_BYTES);
    fpdu = fpdu > terminate ? fpdu : terminate;
    struct tcp_marking *marking = vipl_zalloc(sizeof(*marking) + fpdu + vipl_mpa_marked_bytes(fpdu));
    if (marking != NULL) {
        marking->max_payload = segment;
        marking->plain = (uint8_t *)(marking + 1);
        marking->marked = marking->plain + fpdu;
    }
    return marking;
}

bool vipl_tcp_start_marking(struct tcp_conn *conn)
{
    uint32_t max_payload = VIPL_MPA_MAX_ULPDU / (VIPL_MPA_MARKER_SPACING) * (VIPL_MPA_MARKER_SPACING - 8);
    uint32_t segment = segment_bytes(conn) & ~3u;
    conn->marking = new_marking(segment < max_payload ? segment : max_payload);
    return conn->marking != NULL;
}

/* A place in a list of pieces. */
struct list_cursor {
    const struct vipl_iov *piece;
    const struct vipl_iov *end;
    size_t offset;
    bool fault; /* memory of the program is missing */
};

/* Takes the next bytes of a list; `to` NULL: skips them. Returns false if the list is too short, or
 * memory is missing. */
static bool copy_list_bytes(struct list_cursor *c, uint8_t *to, size_t bytes)
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

/* Copies the next FPDU of the list, or skips it. Returns its bytes; 0: the list has none, or
 * memory is missing. */
static size_t copy_fpdu(struct tcp_marking *m, struct list_cursor *c, bool copy)
{
    if (!copy_list_bytes(c, m->plain, VIPL_MPA_HEADER_BYTES)) {
        return 0;
    }
    size_t bytes = vipl_mpa_fpdu_bytes(vipl_get16(m->plain));
    uint8_t *rest = copy ? m->plain + VIPL_MPA_HEADER_BYTES : NULL;
    return copy_list_bytes(c, rest, bytes - VIPL_MPA_HEADER_BYTES) ? bytes : 0;
}

static int send_marked_fpdu(struct tcp_conn *conn)
{
    struct tcp_marking *m = conn->marking;
    struct vipl_iov rest = {m->marked + m->sent, m->have - m->sent};
    size_t n = 0;
    int error = vipl_socket_send(conn->fd, &rest, 1, false, &n);
    m->sent += n;
    return error == 0 && n < rest.len ? EAGAIN : error;
}

int vipl_tcp_send_marked(struct tcp_conn *conn, const struct vipl_iov *pieces, unsigned count,
                         struct tcp_cursor *at)
{
    struct tcp_marking *m = conn->marking;
    struct list_cursor c = {pieces, pieces + count, 0, false};
    for (size_t bytes; (bytes = copy_fpdu(m, &c, at->byte == 0)) > 0;) {
        /* otherwise it is marked already, and the kernel has only a part of it */
        if (at->byte == 0) {
            m->have = vipl_mpa_mark(m->marked, m->plain, bytes, conn->crc, &m->position);
            m->sent = 0;
            at->byte = 1;
        }
        int error = send_marked_fpdu(conn);
        if (error != 0) {
            return error;
        }
        at->frame++;
        at->byte = 0;
    }
    return c.fault ? EFAULT : 0;
}
