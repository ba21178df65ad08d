/* SPDX-License-Identifier: MIT */
/* What a capture's file begins and ends with: a section, an interface, its statistics. */
#ifndef VIPL_DM_SECTION_H
#define VIPL_DM_SECTION_H

#include <stdint.h>

#include "dm/port.h"

/* Room for a head: with slots of the largest size. */
#define DM_HEAD_ROOM (17U * 4096U)
/* Room for the end of a file: what ends the last block, and the statistics. */
#define DM_TAIL_ROOM 256U

/* What the head says. */
struct dm_section {
    const char *interface; /* its name */
    const char *clock;     /* whose time stamps */
    uint32_t snaplen;
};

/* What the statistics say; times in nanoseconds since 1970. */
struct dm_statistics {
    uint64_t first; /* 0: there is no packet */
    uint64_t last;
    uint64_t received; /* by the port */
    uint64_t missed;   /* dropped by the port */
    uint64_t no_slot;  /* dropped for want of a slot */
    uint64_t kept;     /* in all files */
};

/* Writes a head of a multiple of 4,096 bytes, and returns its bytes. Its last block, the interface,
 * has the length of a slot and goes on for DM_SLOT_BLOCK bytes: those that dm_slot_prepare() has
 * written into the first slot of the file, or dm_section_tail(). */
uint32_t dm_section_head(const struct dm_section *section, uint32_t slot_bytes, uint8_t *to);
/* The end of a file of slots: that of its last block, whole, and the statistics. */
uint32_t dm_section_tail(const struct dm_statistics *statistics, uint32_t slot_bytes, uint8_t *to);

/* The same of a compact file, whose blocks are whole. */
uint32_t dm_section_compact_head(const struct dm_section *section, uint8_t *to);
uint32_t dm_section_statistics(const struct dm_statistics *statistics, uint8_t *to);

#endif
