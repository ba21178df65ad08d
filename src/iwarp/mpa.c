/* SPDX-License-Identifier: MIT */
/*
 * MPA's start frames, FPDU trailers and markers. Numbers are in network byte order, except the CRC,
 * which is sent lowest byte first, as iSCSI does.
 */
#include "iwarp/mpa.h"

#include <string.h>

#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"

/* --- start frames: key, flags, revision, length of the private data
 * ------------------------------- */

enum { KEY_BYTES = 16, AT_FLAGS = 16, AT_REVISION = 17, AT_PRIVATE_BYTES = 18 };
enum { FLAG_MARKERS = 0x80, FLAG_CRC = 0x40, FLAG_REJECT = 0x20, FLAG_ENHANCED = 0x10 };

static const char request_key[] = "MPA ID Req Frame";
static const char reply_key[] = "MPA ID Rep Frame";

/* Whether the bytes received so far can be the beginning of a frame. */
static bool start_is_plausible(const uint8_t *bytes, size_t length)
{
    size_t key = length < KEY_BYTES ? length : KEY_BYTES;
    if (memcmp(bytes, request_key, key) != 0 && memcmp(bytes, reply_key, key) != 0) {
        return false;
    }
    if (length > AT_REVISION && bytes[AT_REVISION] == 0) {
        return false;
    }
    return length <= AT_PRIVATE_BYTES || bytes[AT_PRIVATE_BYTES] <= VIPL_MPA_MAX_PRIVATE >> 8;
}

enum vipl_parse vipl_mpa_start_read(const uint8_t *bytes, size_t length, struct vipl_mpa_start *out)
{
    if (length == 0) {
        return VIPL_PARSE_MORE;
    }
    if (!start_is_plausible(bytes, length)) {
        return VIPL_PARSE_BAD;
    }
    if (length < VIPL_MPA_START_BYTES) {
        return VIPL_PARSE_MORE;
    }
    /* RFC 5044: reserved flags are not checked; the others may be reserved in this
     * kind of frame. */
    uint8_t flags = bytes[AT_FLAGS];
    struct vipl_mpa_start start = {.revision = bytes[AT_REVISION],
                                   .private_bytes = vipl_get16(bytes + AT_PRIVATE_BYTES)};
    start.reply = memcmp(bytes, reply_key, KEY_BYTES) == 0;
    start.markers = (flags & FLAG_MARKERS) != 0;
    start.crc = (flags & FLAG_CRC) != 0;
    start.reject = start.reply && (flags & FLAG_REJECT) != 0;
    start.enhanced = start.revision == 2 && (flags & FLAG_ENHANCED) != 0;
    if (start.private_bytes > VIPL_MPA_MAX_PRIVATE ||
        (start.enhanced && start.private_bytes < VIPL_MPA_ENHANCED_BYTES)) {
        return VIPL_PARSE_BAD;
    }
    *out = start;
    return VIPL_PARSE_OK;
}

void vipl_mpa_start_write(uint8_t *to, const struct vipl_mpa_start *start)
{
    memcpy(to, start->reply ? reply_key : request_key, KEY_BYTES);
    to[AT_FLAGS] = (uint8_t)((start->markers ? FLAG_MARKERS : 0) | (start->crc ? FLAG_CRC : 0) |
                             (start->reply && start->reject ? FLAG_REJECT : 0) |
                             (start->revision == 2 && start->enhanced ? FLAG_ENHANCED : 0));
    to[AT_REVISION] = start->revision;
    vipl_put16(to + AT_PRIVATE_BYTES, start->private_bytes);
}

/* Two words of 14 bits, with two control bits above each: A and B with the IRD, C and D
 * with the ORD. */
enum { CONTROL_HIGH = 0x8000, CONTROL_LOW = 0x4000, DEPTH_MAX = 0x3FFF };

void vipl_mpa_enhanced_read(const uint8_t bytes[VIPL_MPA_ENHANCED_BYTES], struct vipl_mpa_enhanced *out)
{
    uint16_t ird = vipl_get16(bytes), ord = vipl_get16(bytes + 2);
    out->ird = ird & DEPTH_MAX;
    out->ord = ord & DEPTH_MAX;
    out->peer_to_peer = (ird & CONTROL_HIGH) != 0;
    out->rtr_send = (ird & CONTROL_LOW) != 0;
    out->rtr_write = (ord & CONTROL_HIGH) != 0;
    out->rtr_read = (ord & CONTROL_LOW) != 0;
}

static uint16_t enhanced_word(uint16_t depth, bool high, bool low)
{
    return (uint16_t)((depth < DEPTH_MAX ? depth : DEPTH_MAX) | (high ? CONTROL_HIGH : 0) |
                      (low ? CONTROL_LOW : 0));
}

void vipl_mpa_enhanced_write(uint8_t to[VIPL_MPA_ENHANCED_BYTES], const struct vipl_mpa_enhanced *e)
{
    vipl_put16(to, enhanced_word(e->ird, e->peer_to_peer, e->rtr_send));
    vipl_put16(to + 2, enhanced_word(e->ord, e->rtr_write, e->rtr_read));
}

/* --- FPDUs
 * --------------------------------------------------------------------------------------- */

static void put_crc(uint8_t *to, uint32_t crc)
{
    for (int i = 0; i < VIPL_MPA_CRC_BYTES; i++) {
        to[i] = (uint8_t)(crc >> (8 * i));
    }
}

static uint32_t get_crc(const uint8_t *from)
{
    return (uint32_t)from[3] << 24 | (uint32_t)from[2] << 16 | (uint32_t)from[1] << 8 | from[0];
}

/* The CRC of everything in an FPDU before the CRC field, with markers and pad. */
static uint32_t fpdu_crc(const uint8_t *fpdu, size_t bytes)
{
    return vipl_crc32c(0, fpdu, bytes - VIPL_MPA_CRC_BYTES);
}

size_t vipl_mpa_trailer_write(uint8_t *to, size_t ulpdu, uint32_t crc, bool with_crc)
{
    size_t pad = vipl_mpa_pad(ulpdu);
    memset(to, 0, pad);
    put_crc(to + pad, with_crc ? vipl_crc32c(crc, to, pad) : 0);
    return pad + VIPL_MPA_CRC_BYTES;
}

bool vipl_mpa_crc_is_right(const uint8_t *fpdu, size_t bytes)
{
    return bytes >= VIPL_MPA_HEADER_BYTES + VIPL_MPA_CRC_BYTES &&
           get_crc(fpdu + bytes - VIPL_MPA_CRC_BYTES) == fpdu_crc(fpdu, bytes);
}

/* --- markers: two reserved bytes, then the distance back to the FPDU's length field
 * --------------- A marker between two FPDUs belongs to the second, with distance 0. The distance
 * has 16 bits: an FPDU with markers should not be larger than 64 KiB. Of an FPDU everything is a
 * multiple of 4 bytes, so that neither its length field nor its CRC is ever split. */

enum { MARKED_BYTES = VIPL_MPA_MARKER_SPACING - VIPL_MPA_MARKER_BYTES }; /* between two markers */

/* What the marker at offset `at` of an FPDU says, if the length field is at `header`. */
static uint16_t marker_distance(size_t at, size_t header)
{
    return (uint16_t)(at < header ? 0 : at - header);
}

size_t vipl_mpa_marked_bytes(size_t length)
{
    return length + (length + MARKED_BYTES - 1) / MARKED_BYTES * VIPL_MPA_MARKER_BYTES;
}

size_t vipl_mpa_mark(uint8_t *to, const uint8_t *fpdu, size_t bytes, bool with_crc, uint32_t *position)
{
    /* bytes before the next marker; 0: a marker comes first */
    size_t next = (0 - *position) % VIPL_MPA_MARKER_SPACING;
    size_t header = next == 0 ? VIPL_MPA_MARKER_BYTES : 0, at = 0;
    while (bytes > 0) {
        if (at == next) {
            vipl_put16(to + at, 0);
            vipl_put16(to + at + 2, marker_distance(at, header));
            at += VIPL_MPA_MARKER_BYTES;
            next += VIPL_MPA_MARKER_SPACING;
        }
        size_t piece = next - at < bytes ? next - at : bytes;
        memcpy(to + at, fpdu, piece);
        at += piece;
        fpdu += piece;
        bytes -= piece;
    }
    put_crc(to + at - VIPL_MPA_CRC_BYTES, with_crc ? fpdu_crc(to, at) : 0);
    *position = (uint32_t)(*position + at) % VIPL_MPA_MARKER_SPACING;
    return at;
}
