/* SPDX-License-Identifier: MIT */
/*
 * The format pcapng: sections in either byte order, interfaces with their own resolutions of time,
 * and the kinds of blocks that matter here: section, interface, enhanced and simple packet, and the
 * packet block that is obsolete. Other blocks are skipped.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/reason.h"
#include "dm/recording.h"

#define BLOCK_SECTION UINT32_C(0x0A0D0D0A)
#define BLOCK_INTERFACE UINT32_C(1)
#define BLOCK_OLD_PACKET UINT32_C(2)
#define BLOCK_SIMPLE UINT32_C(3)
#define BLOCK_PACKET UINT32_C(6)
#define ORDER_MAGIC UINT32_C(0x1A2B3C4D)

#define BLOCK_FRAME UINT32_C(12)  /* type, length, and the length at the end */
#define SECTION_HEAD UINT32_C(16) /* of the body: order, version, length */
#define INTERFACE_HEAD UINT32_C(8)
#define PACKET_HEAD UINT32_C(20)
#define SIMPLE_HEAD UINT32_C(4)

#define OPTION_END 0U
#define OPTION_RESOLUTION 9U
#define OPTION_OFFSET 14U
#define RESOLUTION_MICRO 6U
#define LINK_ETHERNET 1U
#define NS_PER_SECOND UINT64_C(1000000000)

/* ticks * 10^9 / 2^shift, without the bits that get lost below. */
static uint64_t binary_time(uint64_t ticks, unsigned shift)
{
    uint64_t seconds;
    uint64_t part;

    if (shift >= 64) { /* a tick is less than 10^-19 s: all of 64 bits are less than a second and a half */
        return shift - 64 >= 34 ? 0 : (ticks >> 34) * NS_PER_SECOND >> (shift - 64) >> 30;
    }
    seconds = shift == 0 ? ticks : ticks >> shift;
    part = shift == 0 ? 0 : ticks << (64 - shift); /* of a second, in 2^-64 */
    part = ((part >> 32) * NS_PER_SECOND) >> 32;
    if (seconds > (UINT64_MAX - part) / NS_PER_SECOND) {
        return UINT64_MAX;
    }
    return seconds * NS_PER_SECOND + part;
}

uint64_t dm_pcapng_time(const struct dm_interface *interface, uint64_t ticks)
{
    unsigned digits = interface->resolution & 0x7FU;

    if ((interface->resolution & 0x80U) != 0) {
        return binary_time(ticks, digits) + interface->offset;
    }
    for (; digits < 9; digits++) {
        ticks = ticks > UINT64_MAX / 10 ? UINT64_MAX : ticks * 10;
    }
    for (; digits > 9 && ticks > 0; digits--) {
        ticks /= 10;
    }
    return ticks + interface->offset;
}

static int cannot_read(int error, struct vipl_dm_reason *reason)
{
    return dm_fail(reason, error, "the recording cannot be read: %s", strerror(error));
}

static int malformed(const struct dm_recording *recording, const char *what, struct vipl_dm_reason *reason)
{
    return dm_fail(reason, EINVAL, "the recording has %s at %" PRIu64, what, recording->at);
}

/* A section begins: byte order and version. */
static int begin_section(struct dm_recording *recording, struct vipl_dm_reason *reason)
{
    int error;
    const uint8_t *body = dm_recording_bytes(recording, recording->at + 8, SECTION_HEAD, &error);

    if (body == NULL) {
        return error != 0 ? cannot_read(error, reason) : malformed(recording, "a cut section header", reason);
    }
    recording->is_big = dm_get32(body, true) == ORDER_MAGIC;
    if (!recording->is_big && dm_get32(body, false) != ORDER_MAGIC) {
        return malformed(recording, "a section without a byte order", reason);
    }
    if (dm_get16(body + 4, recording->is_big) != 1) {
        return malformed(recording, "a section of a version that is not 1", reason);
    }
    recording->count = 0;
    return 0;
}

/* Options of an interface: those about time. */
static void take_options(struct dm_interface *interface, const uint8_t *options, uint32_t bytes, bool is_big)
{
    while (bytes >= 4) {
        unsigned code = dm_get16(options, is_big);
        uint32_t length = dm_get16(options + 2, is_big);
        uint32_t whole = 4 + ((length + 3) & ~UINT32_C(3));

        if (code == OPTION_END || whole > bytes) {
            return;
        }
        if (code == OPTION_RESOLUTION && length >= 1) {
            interface->resolution = options[4];
        } else if (code == OPTION_OFFSET && length >= 8) {
            interface->offset = dm_get(options + 4, 8, is_big) * NS_PER_SECOND;
        }
        options += whole;
        bytes -= whole;
    }
}

static int add_interface(struct dm_recording *recording, uint32_t bytes, struct vipl_dm_reason *reason)
{
    uint32_t body_bytes = bytes - BLOCK_FRAME;
    int error;
    const uint8_t *body = NULL;
    struct dm_interface *interface;

    if (body_bytes < INTERFACE_HEAD || recording->count == DM_MAX_INTERFACES) {
        return malformed(
            recording, body_bytes < INTERFACE_HEAD ? "an interface that is too short" : "too many interfaces",
            reason);
    }
    body_bytes = body_bytes < 65536 ? body_bytes : 65536; /* further options are not about time */
    body = dm_recording_bytes(recording, recording->at + 8, body_bytes, &error);
    if (body == NULL) {
        return error != 0 ? cannot_read(error, reason) : malformed(recording, "a cut interface", reason);
    }
    if (dm_get16(body, recording->is_big) != LINK_ETHERNET) {
        return malformed(recording, "an interface whose packets are not Ethernet frames", reason);
    }
    interface = &recording->interfaces[recording->count++];
    interface->resolution = RESOLUTION_MICRO;
    interface->offset = 0;
    take_options(interface, body + INTERFACE_HEAD, body_bytes - INTERFACE_HEAD, recording->is_big);
    return 0;
}

/* An enhanced packet block, or the obsolete one, whose number of the interface has 16 bits. */
static int take_packet(struct dm_recording *recording, uint32_t type, uint32_t bytes,
                       struct dm_recorded *packet, struct vipl_dm_reason *reason)
{
    bool is_big = recording->is_big;
    int error;
    const uint8_t *body;
    uint32_t interface;
    uint64_t ticks;

    if (bytes < BLOCK_FRAME + PACKET_HEAD) {
        return malformed(recording, "a packet block that is too short", reason);
    }
    body = dm_recording_bytes(recording, recording->at + 8, PACKET_HEAD, &error);
    if (body == NULL) {
        return error != 0 ? cannot_read(error, reason) : malformed(recording, "a cut packet block", reason);
    }
    interface = type == BLOCK_PACKET ? dm_get32(body, is_big) : dm_get16(body, is_big);
    if (interface >= recording->count) {
        return malformed(recording, "a packet of an interface that it does not describe", reason);
    }
    ticks = (uint64_t)dm_get32(body + 4, is_big) << 32 | dm_get32(body + 8, is_big);
    packet->time = dm_pcapng_time(&recording->interfaces[interface], ticks);
    packet->bytes = dm_get32(body + 12, is_big);
    packet->original = dm_get32(body + 16, is_big);
    packet->offset = recording->at + 8 + PACKET_HEAD;
    if (packet->bytes > bytes - BLOCK_FRAME - PACKET_HEAD) {
        return malformed(recording, "a packet that is longer than its block", reason);
    }
    return 0;
}

/* A simple packet block: no time, and as many bytes as the block has. */
static int take_simple(struct dm_recording *recording, uint32_t bytes, struct dm_recorded *packet,
                       struct vipl_dm_reason *reason)
{
    int error;
    const uint8_t *body;
    uint32_t room;

    if (bytes < BLOCK_FRAME + SIMPLE_HEAD || recording->count == 0) {
        return malformed(recording, "a simple packet block without an interface, or too short", reason);
    }
    body = dm_recording_bytes(recording, recording->at + 8, SIMPLE_HEAD, &error);
    if (body == NULL) {
        return error != 0 ? cannot_read(error, reason) : malformed(recording, "a cut packet block", reason);
    }
    room = bytes - BLOCK_FRAME - SIMPLE_HEAD;
    packet->original = dm_get32(body, recording->is_big);
    packet->bytes = packet->original < room ? packet->original : room;
    packet->time = 0;
    packet->offset = recording->at + 8 + SIMPLE_HEAD;
    return 0;
}

/* What the block means. EAGAIN: it is no packet. */
static int take_block(struct dm_recording *recording, uint32_t type, uint32_t bytes,
                      struct dm_recorded *packet, struct vipl_dm_reason *reason)
{
    int error;

    switch (type) {
    case BLOCK_SECTION:
        return EAGAIN; /* its byte order has been taken already */
    case BLOCK_INTERFACE:
        error = add_interface(recording, bytes, reason);
        return error != 0 ? error : EAGAIN;
    case BLOCK_PACKET:
    case BLOCK_OLD_PACKET:
        error = take_packet(recording, type, bytes, packet, reason);
        break;
    case BLOCK_SIMPLE:
        error = take_simple(recording, bytes, packet, reason);
        break;
    default:
        return EAGAIN;
    }
    if (error == 0 && packet->bytes > DM_MAX_PACKET) {
        return malformed(recording, "a packet of more than 262144 bytes", reason);
    }
    return error;
}

int dm_pcapng_next(struct dm_recording *recording, struct dm_recorded *packet, struct vipl_dm_reason *reason)
{
    for (;;) {
        int error;
        const uint8_t *head = dm_recording_bytes(recording, recording->at, 8, &error);
        uint32_t type;
        uint32_t bytes;

        if (error != 0) {
            return cannot_read(error, reason);
        }
        if (head == NULL) {
            recording->is_cut = recording->at < recording->source.bytes;
            return ENODATA;
        }
        type = dm_get32(head, recording->is_big);
        if (type == BLOCK_SECTION) {
            error = begin_section(recording, reason);
            if (error != 0) {
                return error;
            }
            head = dm_recording_bytes(recording, recording->at, 8, &error); /* which was in the window */
            if (head == NULL) {
                return cannot_read(error != 0 ? error : EIO, reason);
            }
        }
        bytes = dm_get32(head + 4, recording->is_big);
        if (bytes < BLOCK_FRAME || bytes % 4 != 0 ||
            (type == BLOCK_SECTION && bytes < BLOCK_FRAME + SECTION_HEAD)) {
            return malformed(recording, "a block of an impossible length", reason);
        }
        if (bytes > recording->source.bytes - recording->at) {
            recording->is_cut = true;
            recording->at = recording->source.bytes;
            return ENODATA;
        }
        error = take_block(recording, type, bytes, packet, reason);
        if (error == 0 || error == EAGAIN) {
            recording->at += bytes;
        }
        if (error != EAGAIN) {
            return error;
        }
    }
}
