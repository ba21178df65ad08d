/* SPDX-License-Identifier: MIT */
/*
 * Recordings: where the packets of a pcap or pcapng file are. The file is hostile: each length is
 * compared with what is there before it is used, and the reader always gets nearer to the end.
 *
 * A reader has a window of the file, in main memory, from which it takes headers. Packets are not
 * read.
 */
#ifndef VIPL_DM_RECORDING_H
#define VIPL_DM_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl/device_memory.h"

/* The longest packet of a recording, as libpcap has it. */
#define DM_MAX_PACKET UINT32_C(262144)
/* Interfaces of one section that are told apart. */
#define DM_MAX_INTERFACES 1024
#define DM_WINDOW_BYTES (UINT32_C(1) << 18)

/* Where a recording's bytes are. */
struct dm_source {
    /* Returns the bytes that were read, fewer only at the end, or a negative errno value. */
    int64_t (*read)(void *context, uint64_t offset, uint8_t *to, uint32_t bytes);
    void *context;
    uint64_t bytes; /* of the whole */
};

/* A packet of a recording. */
struct dm_recorded {
    uint64_t offset;   /* of its bytes in the file */
    uint64_t time;     /* nanoseconds since 1970, or since whenever the recording says */
    uint32_t bytes;    /* that are there */
    uint32_t original; /* that it had on the wire */
};

/* How an interface of a section counts time. */
struct dm_interface {
    uint8_t resolution; /* if_tsresol: 10^-n s, or 2^-(n - 128) s */
    uint64_t offset;    /* if_tsoffset, in nanoseconds, to be added modulo 2^64 */
};

/* One reading of a recording, by one thread. */
struct dm_recording {
    struct dm_source source;
    uint64_t at;    /* of the next block or record */
    bool is_ng;     /* pcapng */
    bool is_big;    /* numbers are big-endian: of pcapng, in this section */
    bool is_nano;   /* pcap: times are in nanoseconds */
    bool is_cut;    /* the file ends inside a block or record: set at the end */
    uint32_t count; /* of interfaces of this section */
    struct dm_interface interfaces[DM_MAX_INTERFACES];
    uint64_t window_at; /* where in the file the window is */
    uint32_t window_bytes;
    uint8_t *window; /* DM_WINDOW_BYTES of it */
};

/* Reads the file's head. 0, or an errno value and why. */
int dm_recording_open(struct dm_recording *recording, const struct dm_source *source,
                      struct vipl_dm_reason *reason);
void dm_recording_close(struct dm_recording *recording);

/* The next packet. 0; ENODATA: there are no more; another errno value, and why. */
int dm_recording_next(struct dm_recording *recording, struct dm_recorded *packet,
                      struct vipl_dm_reason *reason);

/* For the two formats: `bytes` of the file, at most DM_WINDOW_BYTES, as long as no others are asked
 * for. NULL: the file ends before, or *error is an errno value. */
const uint8_t *dm_recording_bytes(struct dm_recording *recording, uint64_t offset, uint32_t bytes,
                                  int *error);

/* The two formats. pcapng's open takes the first section header. */
int dm_pcap_open(struct dm_recording *recording, const uint8_t *head, struct vipl_dm_reason *reason);
int dm_pcap_next(struct dm_recording *recording, struct dm_recorded *packet, struct vipl_dm_reason *reason);
int dm_pcapng_next(struct dm_recording *recording, struct dm_recorded *packet, struct vipl_dm_reason *reason);

/* A time of an interface, in nanoseconds; a time that 64 bits cannot tell is the last one. */
uint64_t dm_pcapng_time(const struct dm_interface *interface, uint64_t ticks);

#endif
