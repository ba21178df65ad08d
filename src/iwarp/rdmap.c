/* SPDX-License-Identifier: MIT */
/* DDP headers, RDMAP's Read Request, Immediate Data and Terminate payloads. */
#include "iwarp/rdmap.h"

#include "iwarp/bytes.h"

/* --- DDP header: a byte of DDP, a byte of RDMAP, the fields of a tagged or untagged segment --- */

enum { DDP_TAGGED = 0x80, DDP_LAST = 0x40, DDP_VERSION_BITS = 0x03, DDP_VERSION = 1 };
enum { RDMAP_VERSION_BITS = 0xC0, RDMAP_VERSION = 1 << 6, RDMAP_OP_BITS = 0x0F };

static bool op_is_tagged(unsigned op)
{
    return op == VIPL_RDMAP_WRITE || op == VIPL_RDMAP_READ_RESPONSE;
}

static bool op_invalidates(unsigned op)
{
    return op == VIPL_RDMAP_SEND_INVALIDATE || op == VIPL_RDMAP_SEND_SE_INVALIDATE;
}

static uint32_t queue_of_op(unsigned op)
{
    return op == VIPL_RDMAP_READ_REQUEST ? VIPL_DDP_QUEUE_READ_REQUEST
           : op == VIPL_RDMAP_TERMINATE  ? VIPL_DDP_QUEUE_TERMINATE
                                         : VIPL_DDP_QUEUE_SEND;
}

static size_t ddp_header_bytes(bool tagged)
{
    return tagged ? VIPL_DDP_TAGGED_BYTES : VIPL_DDP_UNTAGGED_BYTES;
}

/* Reads the fields of a header that has all its bytes, valid or not. */
static void ddp_fields(const uint8_t *header, struct vipl_ddp *out)
{
    *out = (struct vipl_ddp){.tagged = (header[0] & DDP_TAGGED) != 0,
                             .last = (header[0] & DDP_LAST) != 0,
                             .op = header[1] & RDMAP_OP_BITS};
    out->header_bytes = ddp_header_bytes(out->tagged);
    if (out->tagged) {
        out->stag = vipl_get32(header + 2);
        out->offset = vipl_get64(header + 6);
        return;
    }
    out->stag = op_invalidates(out->op) ? vipl_get32(header + 2) : 0;
    out->queue = vipl_get32(header + 6);
    out->msn = vipl_get32(header + 10);
    out->mo = vipl_get32(header + 14);
}

/* A Terminate sends an invalid header back, so *out is written unless the header is too short. */
enum vipl_ddp_fault vipl_ddp_read(const uint8_t *ulpdu, size_t length, struct vipl_ddp *out)
{
    if (length == 0 || length < ddp_header_bytes((ulpdu[0] & DDP_TAGGED) != 0)) {
        return VIPL_DDP_FAULT_SHORT;
    }
    ddp_fields(ulpdu, out);
    out->segment_bytes = length;
    if ((ulpdu[0] & DDP_VERSION_BITS) != DDP_VERSION) {
        return VIPL_DDP_FAULT_VERSION;
    }
    if ((ulpdu[1] & RDMAP_VERSION_BITS) != RDMAP_VERSION) {
        return VIPL_DDP_FAULT_RDMAP_VERSION;
    }
    if (out->op > VIPL_RDMAP_IMMEDIATE_SE || out->tagged != op_is_tagged(out->op)) {
        return VIPL_DDP_FAULT_OPCODE;
    }
    return out->tagged || out->queue == queue_of_op(out->op) ? VIPL_DDP_OK : VIPL_DDP_FAULT_QUEUE;
}

bool vipl_ddp_is_whole_send(const uint8_t *ulpdu, size_t length, uint32_t msn)
{
    return length > VIPL_DDP_UNTAGGED_BYTES &&
           (ulpdu[0] & (DDP_TAGGED | DDP_LAST | DDP_VERSION_BITS)) == (DDP_LAST | DDP_VERSION) &&
           (ulpdu[1] & (RDMAP_VERSION_BITS | RDMAP_OP_BITS)) == (RDMAP_VERSION | VIPL_RDMAP_SEND) &&
           vipl_get32(ulpdu + 6) == VIPL_DDP_QUEUE_SEND && vipl_get32(ulpdu + 10) == msn &&
           vipl_get32(ulpdu + 14) == 0;
}

size_t vipl_ddp_write(uint8_t *to, const struct vipl_ddp *ddp)
{
    to[0] = (uint8_t)((ddp->tagged ? DDP_TAGGED : 0) | (ddp->last ? DDP_LAST : 0) | DDP_VERSION);
    to[1] = (uint8_t)(RDMAP_VERSION | (ddp->op & RDMAP_OP_BITS));
    if (ddp->tagged) {
        vipl_put32(to + 2, ddp->stag);
        vipl_put64(to + 6, ddp->offset);
    } else {
        vipl_put32(to + 2, op_invalidates(ddp->op) ? ddp->stag : 0);
        vipl_put32(to + 6, ddp->queue);
        vipl_put32(to + 10, ddp->msn);
        vipl_put32(to + 14, ddp->mo);
    }
    return ddp_header_bytes(ddp->tagged);
}

/* --- payloads
 * ------------------------------------------------------------------------------------ */

void vipl_rdmap_read_read(const uint8_t bytes[VIPL_RDMAP_READ_REQUEST_BYTES], struct vipl_rdmap_read *out)
{
    out->sink_stag = vipl_get32(bytes);
    out->sink_offset = vipl_get64(bytes + 4);
    out->bytes = vipl_get32(bytes + 12);
    out->source_stag = vipl_get32(bytes + 16);
    out->source_offset = vipl_get64(bytes + 20);
}

void vipl_rdmap_read_write(uint8_t to[VIPL_RDMAP_READ_REQUEST_BYTES], const struct vipl_rdmap_read *read)
{
    vipl_put32(to, read->sink_stag);
    vipl_put64(to + 4, read->sink_offset);
    vipl_put32(to + 12, read->bytes);
    vipl_put32(to + 16, read->source_stag);
    vipl_put64(to + 20, read->source_offset);
}

uint32_t vipl_rdmap_immediate_read(const uint8_t bytes[VIPL_RDMAP_IMMEDIATE_BYTES])
{
    return vipl_get32(bytes + 4);
}

void vipl_rdmap_immediate_write(uint8_t to[VIPL_RDMAP_IMMEDIATE_BYTES], uint32_t immediate)
{
    vipl_put32(to, 0);
    vipl_put32(to + 4, immediate);
}

/* --- Terminate: reason, flags, then segment length and DDP header, then the Read Request --- */

enum { TERMINATE_BYTES = 4, SEGMENT_LENGTH_BYTES = 2 };
/* M: the segment length is valid; D: it and the DDP header follow; R: the Read Request follows. */
enum { HEADERS_M = 0x80, HEADERS_D = 0x40, HEADERS_R = 0x20 };

bool vipl_rdmap_terminate_read(const uint8_t *bytes, size_t length, struct vipl_rdmap_terminate *out)
{
    if (length < TERMINATE_BYTES) {
        return false;
    }
    struct vipl_rdmap_terminate t = {.reason = vipl_get16(bytes)};
    uint8_t headers = bytes[2];
    size_t at = TERMINATE_BYTES;
    if ((headers & HEADERS_D) != 0) {
        if (length < at + SEGMENT_LENGTH_BYTES) {
            return false;
        }
        t.segment_bytes = (headers & HEADERS_M) != 0 ? vipl_get16(bytes + at) : 0;
        at += SEGMENT_LENGTH_BYTES;
        /* The header may be invalid, which may be what the Terminate is about. */
        if (vipl_ddp_read(bytes + at, length - at, &t.ddp) == VIPL_DDP_FAULT_SHORT) {
            return false;
        }
        t.with_ddp = t.with_control = true;
        t.control[0] = bytes[at];
        t.control[1] = bytes[at + 1];
        at += t.ddp.header_bytes;
    }
    if ((headers & HEADERS_R) != 0) {
        if (length - at < VIPL_RDMAP_READ_REQUEST_BYTES) {
            return false;
        }
        t.with_read = true;
        vipl_rdmap_read_read(bytes + at, &t.read);
    }
    *out = t;
    return true;
}

size_t vipl_rdmap_terminate_write(uint8_t to[VIPL_RDMAP_MAX_TERMINATE_BYTES],
                                  const struct vipl_rdmap_terminate *terminate)
{
    size_t at = TERMINATE_BYTES;
    vipl_put16(to, terminate->reason);
    to[2] =
        (uint8_t)((terminate->with_ddp ? HEADERS_M | HEADERS_D : 0) | (terminate->with_read ? HEADERS_R : 0));
    to[3] = 0;
    if (terminate->with_ddp) {
        vipl_put16(to + at, terminate->segment_bytes);
        at += SEGMENT_LENGTH_BYTES;
        size_t header = vipl_ddp_write(to + at, &terminate->ddp);
        if (terminate->with_control) {
            to[at] = terminate->control[0];
            to[at + 1] = terminate->control[1];
        }
        at += header;
    }
    if (terminate->with_read) {
        vipl_rdmap_read_write(to + at, &terminate->read);
        at += VIPL_RDMAP_READ_REQUEST_BYTES;
    }
    return at;
}
