/* SPDX-License-Identifier: MIT */
/* What the formats of recordings have in common; see recording.h. */
#include "dm/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dm/bytes.h"
#include "dm/reason.h"

#define PCAPNG_SECTION UINT32_C(0x0A0D0D0A) /* the same in both byte orders */
#define PCAP_HEAD_BYTES 24U

const uint8_t *dm_recording_bytes(struct dm_recording *recording, uint64_t offset, uint32_t bytes, int *error)
{
    uint64_t whole = recording->source.bytes;
    int64_t got;

    *error = 0;
    if (offset > whole || bytes > whole - offset || bytes > DM_WINDOW_BYTES) {
        return NULL;
    }
    if (offset < recording->window_at || offset + bytes > recording->window_at + recording->window_bytes) {
        uint64_t rest = whole - offset;
        got = recording->source.read(recording->source.context, offset, recording->window,
                                     rest < DM_WINDOW_BYTES ? (uint32_t)rest : DM_WINDOW_BYTES);
        if (got < 0) {
            *error = (int)-got;
            recording->window_bytes = 0;
            return NULL;
        }
        recording->window_at = offset;
        recording->window_bytes = (uint32_t)got;
        if ((uint64_t)got < bytes) { /* the file has become shorter */
            return NULL;
        }
    }
    return recording->window + (offset - recording->window_at);
}

static int open_format(struct dm_recording *recording, struct vipl_dm_reason *reason)
{
    int error;
    const uint8_t *head = dm_recording_bytes(recording, 0, 4, &error);

    if (head != NULL && dm_get32(head, false) == PCAPNG_SECTION) {
        recording->is_ng = true;
        return 0;
    }
    head = dm_recording_bytes(recording, 0, PCAP_HEAD_BYTES, &error);
    if (error != 0) {
        return dm_fail(reason, error, "the recording cannot be read: %s", strerror(error));
    }
    if (head == NULL) {
        return dm_fail(reason, EINVAL, "the recording is shorter than a header of pcap or pcapng");
    }
    return dm_pcap_open(recording, head, reason);
}

int dm_recording_open(struct dm_recording *recording, const struct dm_source *source,
                      struct vipl_dm_reason *reason)
{
    int error;

    memset(recording, 0, sizeof(*recording));
    recording->source = *source;
    recording->window = calloc(1, DM_WINDOW_BYTES);
    if (recording->window == NULL) {
        return dm_fail(reason, ENOMEM, "no memory for reading the recording");
    }
    error = open_format(recording, reason);
    if (error != 0) {
        dm_recording_close(recording);
    }
    return error;
}

void dm_recording_close(struct dm_recording *recording)
{
    free(recording->window);
    recording->window = NULL;
}

int dm_recording_next(struct dm_recording *recording, struct dm_recorded *packet,
                      struct vipl_dm_reason *reason)
{
    return recording->is_ng ? dm_pcapng_next(recording, packet, reason)
                            : dm_pcap_next(recording, packet, reason);
}
