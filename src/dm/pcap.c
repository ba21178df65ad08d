/* SPDX-License-Identifier: MIT */
/* The format pcap, in both byte orders, with times in microseconds or nanoseconds. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/reason.h"
#include "dm/recording.h"

#define PCAP_MICRO UINT32_C(0xA1B2C3D4)
#define PCAP_NANO UINT32_C(0xA1B23C4D)
#define PCAP_HEAD UINT32_C(24)
#define RECORD_HEAD UINT32_C(16)
#define LINK_ETHERNET UINT32_C(1)
#define NS_PER_SECOND UINT64_C(1000000000)

int dm_pcap_open(struct dm_recording *recording, const uint8_t *head, struct vipl_dm_reason *reason)
{
    uint32_t magic = dm_get32(head, false);
    uint32_t link;

    recording->is_big = magic != PCAP_MICRO && magic != PCAP_NANO;
    magic = dm_get32(head, recording->is_big);
    if (magic != PCAP_MICRO && magic != PCAP_NANO) {
        return dm_fail(reason, EINVAL, "the recording is neither pcap nor pcapng");
    }
    recording->is_nano = magic == PCAP_NANO;
    if (dm_get16(head + 4, recording->is_big) != 2) {
        return dm_fail(reason, EINVAL, "the recording is pcap of version %u, and not 2",
                       dm_get16(head + 4, recording->is_big));
    }
    link = dm_get32(head + 20, recording->is_big); /* the upper bits say whether frames have a CRC */
    if (link != LINK_ETHERNET) {
        return dm_fail(reason, EINVAL,
                       "the recording is of link type %#" PRIx32 ", and not of Ethernet frames (1)", link);
    }
    recording->at = PCAP_HEAD;
    return 0;
}

int dm_pcap_next(struct dm_recording *recording, struct dm_recorded *packet, struct vipl_dm_reason *reason)
{
    int error;
    const uint8_t *head = dm_recording_bytes(recording, recording->at, RECORD_HEAD, &error);
    uint64_t fraction;

    if (error != 0) {
        return dm_fail(reason, error, "the recording cannot be read: %s", strerror(error));
    }
    if (head == NULL) {
        recording->is_cut = recording->at < recording->source.bytes;
        return ENODATA;
    }
    packet->bytes = dm_get32(head + 8, recording->is_big);
    packet->original = dm_get32(head + 12, recording->is_big);
    if (packet->bytes > DM_MAX_PACKET) {
        return dm_fail(reason, EINVAL, "the recording has a packet of %" PRIu32 " bytes at %" PRIu64,
                       packet->bytes, recording->at);
    }
    packet->offset = recording->at + RECORD_HEAD;
    if (packet->bytes > recording->source.bytes - packet->offset) {
        recording->is_cut = true;
        recording->at = recording->source.bytes;
        return ENODATA;
    }
    fraction = dm_get32(head + 4, recording->is_big);
    packet->time =
        dm_get32(head, recording->is_big) * NS_PER_SECOND + fraction * (recording->is_nano ? 1 : 1000);
    recording->at = packet->offset + packet->bytes;
    return 0;
}
