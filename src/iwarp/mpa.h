/* SPDX-License-Identifier: MIT */
/*
 * MPA (RFC 5044, RFC 6581): the frames a connection starts with, and FPDUs, which carry DDP segments
 * through TCP's stream of bytes. Pure functions on bytes.
 */
#ifndef VIPL_IWARP_MPA_H
#define VIPL_IWARP_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VIPL_MPA_START_BYTES = 20,   /* a request or reply without its private data */
    VIPL_MPA_MAX_PRIVATE = 512,  /* RFC 5044's bound; ours to send is VIPL_MPA_OUR_PRIVATE */
    VIPL_MPA_OUR_PRIVATE = 256,  /* siw takes no more, the 4 bytes of revision 2 included */
    VIPL_MPA_ENHANCED_BYTES = 4, /* at the start of revision 2's private data */
    VIPL_MPA_HEADER_BYTES = 2,   /* an FPDU's length field */
    VIPL_MPA_CRC_BYTES = 4,
    VIPL_MPA_MAX_ULPDU = 65535,
    VIPL_MPA_MARKER_BYTES = 4,
    VIPL_MPA_MARKER_SPACING = 512
};

enum vipl_parse {
    VIPL_PARSE_OK,
    VIPL_PARSE_MORE, /* right so far, but not all there */
    VIPL_PARSE_BAD
};

/* A request or reply frame, without its private data. */
struct vipl_mpa_start {
    bool reply;
    bool markers;  /* M: the sender wants to receive markers */
    bool crc;      /* C: the sender wants CRCs */
    bool reject;   /* R: in replies */
    bool enhanced; /* S: RFC 6581, revision 2 only: the private data starts with a struct vipl_mpa_enhanced */
    uint8_t revision;
    uint16_t private_bytes;
};

/* Looks at the first `length` bytes of a connection. VIPL_PARSE_BAD as soon as they cannot be a frame: a wrong
 * key, revision 0, reserved flags that matter, more private data than the RFC allows. VIPL_PARSE_OK: the frame's
 * first VIPL_MPA_START_BYTES are there; the private data follows them, there or not. */
enum vipl_parse vipl_mpa_start_read(const uint8_t *bytes, size_t length, struct vipl_mpa_start *out);
/* Writes VIPL_MPA_START_BYTES. */
void vipl_mpa_start_write(uint8_t *to, const struct vipl_mpa_start *start);

/* RFC 6581's control fields. IRD and ORD have 14 bits. */
struct vipl_mpa_enhanced {
    uint16_t ird;      /* RDMA Reads the sender can answer at once */
    uint16_t ord;      /* RDMA Reads the sender will have open at once */
    bool peer_to_peer; /* A: a ready-to-receive message is wanted */
    bool rtr_send;     /* B: it may be, or is, an empty Send */
    bool rtr_write;    /* C: an empty RDMA Write */
    bool rtr_read;     /* D: an empty RDMA Read */
};
void vipl_mpa_enhanced_read(const uint8_t bytes[VIPL_MPA_ENHANCED_BYTES], struct vipl_mpa_enhanced *out);
void vipl_mpa_enhanced_write(uint8_t to[VIPL_MPA_ENHANCED_BYTES], const struct vipl_mpa_enhanced *e);

/* --- FPDUs: length field, ULPDU, pad to a multiple of 4, CRC ------------------------------------- */

static inline size_t vipl_mpa_pad(size_t ulpdu)
{
    return (0 - (VIPL_MPA_HEADER_BYTES + ulpdu)) & 3;
}
/* All bytes of an FPDU, without markers. */
static inline size_t vipl_mpa_fpdu_bytes(size_t ulpdu)
{
    return VIPL_MPA_HEADER_BYTES + ulpdu + vipl_mpa_pad(ulpdu) + VIPL_MPA_CRC_BYTES;
}
/* The pad and the CRC that end an FPDU; returns their bytes, at most 7. `crc` is the CRC of the length field and the
 * ULPDU; with_crc false: the field is sent as zero. */
size_t vipl_mpa_trailer_write(uint8_t *to, size_t ulpdu, uint32_t crc, bool with_crc);
/* Whether a whole FPDU, without markers, ends with the CRC of its bytes. */
bool vipl_mpa_crc_is_right(const uint8_t *fpdu, size_t bytes);

/* --- markers: every 512 bytes of a direction's stream, from its first FPDU on --------------------- */

/* The bytes that `length` bytes become with markers among them, at most. */
size_t vipl_mpa_marked_bytes(size_t length);
/* Copies one whole FPDU with the markers it needs at `position`, the bytes that this direction has carried since
 * its first FPDU, markers included, modulo 512; advances it. The FPDU's CRC is computed again over the bytes that
 * it covers. Returns the bytes written. */
size_t vipl_mpa_mark(uint8_t *to, const uint8_t *fpdu, size_t bytes, bool with_crc, uint32_t *position);

#endif
