/* SPDX-License-Identifier: MIT */
/*
 * DDP (RFC 5041) segments, and the RDMAP messages in them (RFC 5040; Immediate Data: RFC 7306).
 * Pure functions on bytes. Whether a segment fits its connection, the caller checks.
 */
#ifndef VIPL_IWARP_RDMAP_H
#define VIPL_IWARP_RDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VIPL_DDP_TAGGED_BYTES = 14,
    VIPL_DDP_UNTAGGED_BYTES = 18,
    VIPL_DDP_QUEUE_SEND = 0,
    VIPL_DDP_QUEUE_READ_REQUEST = 1,
    VIPL_DDP_QUEUE_TERMINATE = 2,
    VIPL_RDMAP_READ_REQUEST_BYTES = 28,
    VIPL_RDMAP_IMMEDIATE_BYTES = 8,
    VIPL_RDMAP_MAX_TERMINATE_BYTES = 4 + 2 + 18 + 28
};

enum vipl_rdmap_op {
    VIPL_RDMAP_WRITE = 0,
    VIPL_RDMAP_READ_REQUEST = 1,
    VIPL_RDMAP_READ_RESPONSE = 2,
    VIPL_RDMAP_SEND = 3,
    VIPL_RDMAP_SEND_INVALIDATE = 4,
    VIPL_RDMAP_SEND_SE = 5,
    VIPL_RDMAP_SEND_SE_INVALIDATE = 6,
    VIPL_RDMAP_TERMINATE = 7,
    VIPL_RDMAP_IMMEDIATE = 8,
    VIPL_RDMAP_IMMEDIATE_SE = 9
};

/* The header of a DDP segment, with RDMAP's part. */
struct vipl_ddp {
    bool tagged;
    bool last;
    uint8_t op;           /* enum vipl_rdmap_op */
    uint32_t stag;        /* tagged: the target; a Send with Invalidate: what to invalidate */
    uint64_t offset;      /* tagged */
    uint32_t queue;       /* untagged, as the next two */
    uint32_t msn;         /* message sequence number, from 1 */
    uint32_t mo;          /* message offset */
    size_t header_bytes;  /* bytes before the payload */
    size_t segment_bytes; /* as received: header and payload */
};

/* Why bytes are not a valid segment; the names are those of RFC 5041 and RFC 5040. */
enum vipl_ddp_fault {
    VIPL_DDP_OK,
    VIPL_DDP_FAULT_SHORT,         /* shorter than its header */
    VIPL_DDP_FAULT_VERSION,       /* not DDP version 1 */
    VIPL_DDP_FAULT_RDMAP_VERSION, /* not RDMAP version 1 */
    VIPL_DDP_FAULT_OPCODE,        /* unknown; or tagged where untagged is right, or the reverse */
    VIPL_DDP_FAULT_QUEUE          /* an operation on a queue that is not its own */
};

enum vipl_ddp_fault vipl_ddp_read(const uint8_t *ulpdu, size_t length, struct vipl_ddp *out);
/* Whether the ULPDU is a Send of one segment, not empty, with that message number: the
 * most frequent message. */
bool vipl_ddp_is_whole_send(const uint8_t *ulpdu, size_t length, uint32_t msn);
/* Writes the header, whose length depends on `tagged`, and returns its bytes. */
size_t vipl_ddp_write(uint8_t *to, const struct vipl_ddp *ddp);

/* An RDMA Read Request's payload. */
struct vipl_rdmap_read {
    uint32_t sink_stag;
    uint64_t sink_offset;
    uint32_t bytes;
    uint32_t source_stag;
    uint64_t source_offset;
};
void vipl_rdmap_read_read(const uint8_t bytes[VIPL_RDMAP_READ_REQUEST_BYTES], struct vipl_rdmap_read *out);
void vipl_rdmap_read_write(uint8_t to[VIPL_RDMAP_READ_REQUEST_BYTES], const struct vipl_rdmap_read *read);

/* Immediate Data: VIPL's 32 bits in the last four of RFC 7306's eight, the others zero. */
uint32_t vipl_rdmap_immediate_read(const uint8_t bytes[VIPL_RDMAP_IMMEDIATE_BYTES]);
void vipl_rdmap_immediate_write(uint8_t to[VIPL_RDMAP_IMMEDIATE_BYTES], uint32_t immediate);

/* --- Terminate (RFC 5040 section 4.8)
 * ------------------------------------------------------------ */

/* The reasons that this library sends and knows: layer (0 RDMAP, 1 DDP, 2 MPA) << 12 | error type
 * << 8 | error code. */
enum vipl_terminate {
    VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC = 0x0000,
    VIPL_TERM_RDMAP_INVALID_STAG = 0x0100,
    VIPL_TERM_RDMAP_BASE_BOUNDS = 0x0101,
    VIPL_TERM_RDMAP_ACCESS = 0x0102,
    VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED = 0x0103,
    VIPL_TERM_RDMAP_TO_WRAP = 0x0104,
    VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED = 0x01FF,
    VIPL_TERM_RDMAP_VERSION = 0x0205,
    VIPL_TERM_RDMAP_OPCODE = 0x0206,
    VIPL_TERM_RDMAP_STREAM_CATASTROPHIC = 0x0207,
    VIPL_TERM_RDMAP_GLOBAL_CATASTROPHIC = 0x0208,
    VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED = 0x0209,
    VIPL_TERM_RDMAP_UNSPECIFIED = 0x02FF,
    VIPL_TERM_DDP_LOCAL_CATASTROPHIC = 0x1000,
    VIPL_TERM_DDP_TAGGED_STAG = 0x1100,
    VIPL_TERM_DDP_TAGGED_BOUNDS = 0x1101,
    VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED = 0x1102,
    VIPL_TERM_DDP_TAGGED_WRAP = 0x1103,
    VIPL_TERM_DDP_TAGGED_VERSION = 0x1104,
    VIPL_TERM_DDP_UNTAGGED_QUEUE = 0x1201,
    VIPL_TERM_DDP_UNTAGGED_NO_BUFFER = 0x1202,
    VIPL_TERM_DDP_UNTAGGED_MSN = 0x1203,
    VIPL_TERM_DDP_UNTAGGED_MO = 0x1204,
    VIPL_TERM_DDP_UNTAGGED_TOO_LONG = 0x1205,
    VIPL_TERM_DDP_UNTAGGED_VERSION = 0x1206,
    VIPL_TERM_MPA_CLOSED = 0x2001,
    VIPL_TERM_MPA_CRC = 0x2002,
    VIPL_TERM_MPA_MARKER = 0x2003,
    VIPL_TERM_MPA_PROTOCOL = 0x2004,
    VIPL_TERM_MPA_CATASTROPHIC = 0x2005, /* RFC 6581, as the next two */
    VIPL_TERM_MPA_IRD = 0x2006,
    VIPL_TERM_MPA_RTR = 0x2007
};

struct vipl_rdmap_terminate {
    uint16_t reason;        /* enum vipl_terminate, or another number that a peer sent */
    uint16_t segment_bytes; /* D: the DDP segment's length, if with_ddp */
    bool with_ddp;          /* the DDP header that the error is about follows */
    struct vipl_ddp ddp;
    bool with_read; /* that segment is this RDMA Read Request (a remote read failed) */
    struct vipl_rdmap_read read;
    /* The DDP header's first two bytes are `control`, valid or not; otherwise they
     * follow from `ddp`. */
    bool with_control;
    uint8_t control[2];
};
/* Returns false if the bytes are not a Terminate's payload. */
bool vipl_rdmap_terminate_read(const uint8_t *bytes, size_t length, struct vipl_rdmap_terminate *out);
/* Returns the bytes written, at most VIPL_RDMAP_MAX_TERMINATE_BYTES. */
size_t vipl_rdmap_terminate_write(uint8_t to[VIPL_RDMAP_MAX_TERMINATE_BYTES],
                                  const struct vipl_rdmap_terminate *terminate);

#endif
