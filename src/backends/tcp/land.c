/* SPDX-License-Identifier: MIT */
/*
 * Large payloads land in the program's memory: once an FPDU's head is there, the rest of its payload is received
 * straight to where it goes. To everybody else the FPDU is two: what had come with the head, and a last few bytes,
 * which take the usual way: by them an RDMA Write becomes visible in order. In between, memory is looked up
 * again for each system call, which is made under the VI's lock: nothing is placed in memory that has been deregistered.
 * What may not be placed any more is received all the same, and dropped.
 *
 * Where there is a CRC a payload does not land: it is not to be placed before the CRC is known to be right.
 */
#include <errno.h>

#include "backends/tcp/tcp.h"
#include "base/iov.h"
#include "iwarp/bytes.h"

enum {
    LAND_LEAST = 8 * 1024, /* missing payload that is worth a system call of its own */
    LARGE = 16 * 1024,     /* an FPDU after which more of its kind are expected */
    EXPECTED = 4,          /* FPDUs that may come in between */
    ROOM = 512,            /* then received beside the payload: the head of the next */
    TAIL = 8
};

size_t vipl_tcp_land_room(const struct tcp_receiving *rx)
{
    return rx->large > 0 ? ROOM : TCP_SCRATCH;
}

void vipl_tcp_land_expect(struct tcp_receiving *rx, size_t fpdu)
{
    if (fpdu >= LARGE) {
        rx->large = EXPECTED;
    } else if (rx->large > 0) {
        rx->large--;
    }
}

static bool has_target(uint8_t op)
{
    return op == VIPL_RDMAP_SEND || op == VIPL_RDMAP_SEND_SE || op == VIPL_RDMAP_WRITE ||
           op == VIPL_RDMAP_READ_RESPONSE;
}

static void advance(struct vipl_ddp *ddp, size_t bytes)
{
    if (ddp->tagged) {
        ddp->offset += bytes;
    } else {
        ddp->mo += (uint32_t)bytes;
    }
}

bool vipl_tcp_lands(const struct tcp_conn *conn, const uint8_t *fpdu, size_t have)
{
    struct vipl_ddp ddp;
    return !conn->crc && conn->state == TCP_OPEN && have >= VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES &&
           vipl_get16(fpdu) > have + LAND_LEAST &&
           vipl_ddp_read(fpdu + VIPL_MPA_HEADER_BYTES, have - VIPL_MPA_HEADER_BYTES, &ddp) == VIPL_DDP_OK &&
           has_target(ddp.op);
}

bool vipl_tcp_land_begin(struct tcp_conn *conn, const uint8_t *fpdu, size_t have)
{
    struct tcp_receiving *rx = &conn->rx;
    struct tcp_segment s;
    const uint8_t *ulpdu = fpdu + VIPL_MPA_HEADER_BYTES;
    vipl_ddp_read(ulpdu, have - VIPL_MPA_HEADER_BYTES, &s.ddp);
    s.ddp.segment_bytes = vipl_get16(fpdu);
    size_t payload = vipl_get16(fpdu) - s.ddp.header_bytes;
    s.payload = ulpdu + s.ddp.header_bytes;
    s.bytes = have - VIPL_MPA_HEADER_BYTES - s.ddp.header_bytes;
    s.ahead = payload - s.bytes;
    rx->large = EXPECTED;
    rx->land = s.ddp;
    advance(&rx->land, s.bytes);
    rx->landing = s.ahead;
    rx->land_tail =
        TAIL + payload % 4; /* so that what is left of the FPDU ends with as many bytes of pad as the whole */
    return vipl_tcp_segment(conn, &s);
}

/* Where the rest goes, from which byte on. The VI's receive lock is held. */
static bool find_target(struct tcp_conn *conn, struct vipl_sg *to, size_t *offset, uint16_t *reason)
{
    struct tcp_receiving *rx = &conn->rx;
    if (rx->land.op == VIPL_RDMAP_WRITE) {
        *offset = 0;
        to->count = 1;
        to->iov[0] = (struct vipl_iov){(void *)(uintptr_t)rx->land.offset, rx->landing};
        return vipl_tcp_write_allowed(conn, &rx->land, rx->landing, reason);
    }
    enum vipl_claim claim =
        rx->drop ? VIPL_CLAIM_GONE : vipl_up_recv_claim(conn->vi, (size_t)rx->land.mo + rx->landing, to);
    *reason = vipl_tcp_claim_reason(claim);
    *offset = rx->land.mo;
    rx->drop = claim != VIPL_CLAIM_OK;
    return claim == VIPL_CLAIM_OK;
}

/* One system call, into the target, or to nowhere. The VI's lock is held: the memory stays. */
static int receive(struct tcp_conn *conn, const struct vipl_sg *to, size_t offset, struct tcp_landing *out)
{
    struct vipl_iov pieces[VIPL_MAX_SEGMENTS + 1];
    uint8_t *scratch = conn->be->scratch;
    size_t lacks = conn->rx.landing - conn->rx.land_tail;
    unsigned count = to == NULL ? 0 : vipl_iov_slice(pieces, to, offset, lacks);
    pieces[count] = (struct vipl_iov){scratch, to == NULL ? lacks : ROOM};
    int error = vipl_socket_receive(conn->fd, pieces, count + 1, &out->received);
    out->landed = out->received < lacks ? out->received : lacks;
    out->rest = scratch + (to == NULL ? out->landed : 0);
    return error;
}

static int receive_response(struct tcp_conn *conn, struct tcp_landing *out)
{
    struct vipl_sg to;
    vipl_up_send_lock(conn->vi);
    bool found = vipl_up_read_target(conn->vi, conn->rx.land.stag, &to);
    found = found && !conn->rx.response_lost;
    int error = receive(conn, found ? &to : NULL, conn->rx.response_bytes, out);
    if (error == EFAULT) { /* the place is not there: the rest is dropped, from the next call on */
        conn->rx.response_lost = true;
        error = EAGAIN;
    }
    vipl_up_send_unlock(conn->vi);
    return error;
}

static int receive_message(struct tcp_conn *conn, struct tcp_landing *out)
{
    struct vipl_sg to;
    size_t offset;
    uint16_t reason;
    vipl_up_recv_lock(conn->vi);
    bool found = find_target(conn, &to, &offset, &reason);
    int error = receive(conn, found ? &to : NULL, offset, out);
    if (error == EFAULT) { /* likewise */
        reason =
            conn->rx.land.op == VIPL_RDMAP_WRITE ? vipl_tcp_write_fault(conn) : vipl_tcp_recv_fault(conn);
        error = EAGAIN;
    }
    vipl_tcp_done(conn, reason, &conn->rx.land);
    return error;
}

int vipl_tcp_land(struct tcp_conn *conn, struct tcp_landing *out)
{
    bool response = conn->rx.land.op == VIPL_RDMAP_READ_RESPONSE;
    out->received = 0;
    return response ? receive_response(conn, out) : receive_message(conn, out);
}

/* The tail takes the usual way: an FPDU with the same head, in the stash. */
static bool stash_tail(struct tcp_conn *conn)
{
    struct tcp_receiving *rx = &conn->rx;
    uint8_t head[VIPL_MPA_HEADER_BYTES + VIPL_DDP_UNTAGGED_BYTES];
    size_t bytes = vipl_ddp_write(head + VIPL_MPA_HEADER_BYTES, &rx->land);
    vipl_put16(head, (uint16_t)(bytes + rx->landing));
    rx->landing = 0;
    return vipl_tcp_stash(conn, head, VIPL_MPA_HEADER_BYTES + bytes);
}

bool vipl_tcp_landed(struct tcp_conn *conn, size_t bytes)
{
    struct tcp_receiving *rx = &conn->rx;
    struct tcp_segment s = {.ddp = rx->land, .bytes = bytes};
    advance(&rx->land, bytes);
    rx->landing -= bytes;
    s.ahead = rx->landing;
    return vipl_tcp_segment(conn, &s) && (rx->landing > rx->land_tail || stash_tail(conn));
}
