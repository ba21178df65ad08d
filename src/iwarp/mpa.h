/* SPDX-License-Identifier: MIT */
/*
 * MPA (RFC 5044, RFC 6581): the frames with which a connection starts, and FPDUs, which carry DDP
 * segments in TCP's byte stream. Pure functions on bytes.
 */
#ifndef VIPL_IWARP_MPA_H
#define VIPL_IWARP_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VIPL_MPA_START_BYTES = 20, /* a request or reply without its private data */
    /* RFC 5044's limit; this library sends at most VIPL_MPA_OUR_PRIVATE */
    VIPL_MPA_MAX_PRIVATE = 512,
    VIPL_MPA_OUR_PRIVATE = 256,  /* siw takes no more, including the 4 bytes of revision 2 */
    VIPL_MPA_ENHANCED_BYTES = 4, /* at the start of revision 2's private data */
    VIPL_MPA_HEADER_BYTES = 2,   /* an FPDU's length field */
    VIPL_MPA_CRC_BYTES = 4,
    VIPL_MPA_MAX_ULPDU = 65535,
    VIPL_MPA_MARKER_BYTES = 4,
    VIPL_MPA_MARKER_SPACING = 512
};

enum vipl_parse {
    VIPL_PARSE_OK,
    VIPL_PARSE_MORE, /* valid so far, but more bytes are needed */
    VIPL_PARSE_BAD
};

/* A request or reply frame, without its private data. */
struct vipl_mpa_start {
    bool reply;
    bool markers; /* M: the sender wants to receive markers */
    bool crc;     /* C: the sender wants CRCs */
    bool reject;  /* R: in replies */
    /* S: RFC 6581, revision 2 only: the private data starts with a struct vipl_mpa_enhanced */
    bool enhanced;
    uint8_t revision;
    uint16_t private_bytes;
};

/* Reads the first `length` bytes of a connection. Returns VIPL_PARSE_BAD as soon as they cannot be
 * a frame: a wrong key, revision 0, or more private data than the RFC allows; VIPL_PARSE_OK when
 * VIPL_MPA_START_BYTES are there, whether the private data after them is there or not. */
enum vipl_parse vipl_mpa_start_read(const uint8_t *bytes, size_t length, struct vipl_mpa_start *out);
/* Writes VIPL_MPA_START_BYTES. */
void vipl_mpa_start_write(uint8_t *to, const struct vipl_mpa_start *start);

/* RFC 6581's control fields. IRD and ORD have 14 bits. */
struct vipl_mpa_enhanced {
    uint16_t ird;      /* RDMA Reads the sender can answer at once */
    uint16_t ord;      /* RDMA Reads the sender will have open at once */
    bool peer_to_peer; /* A: the sender wants a ready-to-receive FPDU */
    bool rtr_send;     /* B: that FPDU may be, or is, an empty Send */
    bool rtr_write;    /* C: an empty RDMA Write */
    bool rtr_read;     /* D: an empty RDMA Read */
};
void vipl_mpa_enhanced_read(const uint8_t bytes[VIPL_MPA_ENHANCED_BYTES], struct vipl_mpa_enhanced *out);
void vipl_mpa_enhanced_write(uint8_t to[VIPL_MPA_ENHANCED_BYTES], const struct vipl_mpa_enhanced *e);

/* --- FPDUs: length field, ULPDU, pad to a multiple of 4, CRC
 * ------------------------------------- */

static inline size_t vipl_mpa_pad(size_t ulpdu)
{
    return (0 - (VIPL_MPA_HEADER_BYTES + ulpdu)) & 3;
}
/* All bytes of an FPDU, without markers. */
static inline size_t vipl_mpa_fpdu_bytes(size_t ulpdu)
{
    return VIPL_MPA_HEADER_BYTES + ulpdu + vipl_mpa_pad(ulpdu) + VIPL_MPA_CRC_BYTES;
}
/* Writes the pad and the CRC that end an FPDU. `crc` is that of the length field and the ULPDU;
 * with_crc false: the CRC field is zero. Returns the bytes written, at most 7. */
size_t vipl_mpa_trailer_write(uint8_t *to, size_t ulpdu, uint32_t crc, bool with_crc);
/* Whether a whole FPDU, without markers, ends with the CRC of its bytes. */
bool vipl_mpa_crc_is_right(const uint8_t *fpdu, size_t bytes);

/* --- markers: every 512 bytes of a direction's stream, from its first
 * FPDU on --------------------- */

/* The greatest number of bytes that `length` bytes can have with markers among them. */
size_t vipl_mpa_marked_bytes(size_t length);
/* Copies one whole FPDU, with the markers that it needs at `position`: the bytes that this
 * direction has carried since its first FPDU, markers included, modulo 512. Computes the FPDU's CRC
 * again, over the markers too, and advances `position`. Returns the bytes written. */
size_t vipl_mpa_mark(uint8_t *to, const uint8_t *fpdu, size_t bytes, bool with_crc, uint32_t *position);

#endif
