/* SPDX-License-Identifier: MIT */
/*
 * How a recording lies on a namespace, which has no files: a label of 4,096 bytes, and the
 * recording right behind it. The label is a text, so that a shell can write and read it:
 *
 *   VIPL recording 1
 *   bytes 1234567                        of the recording; 0: a capture that has not ended
 *   written 1764374400123456789          when, in nanoseconds since 1970: what an index is bound to
 *
 * Each line ends with a line feed, also the last one; zeros follow.
 */
#ifndef VIPL_DM_NVME_LABEL_H
#define VIPL_DM_NVME_LABEL_H

#include <stdbool.h>
#include <stdint.h>

#define DM_LABEL_BYTES 4096U

struct dm_label {
    uint64_t bytes;
    uint64_t written;
};

/* False: there is no label of this version. */
bool dm_label_read(const uint8_t from[DM_LABEL_BYTES], struct dm_label *label);
void dm_label_write(const struct dm_label *label, uint8_t to[DM_LABEL_BYTES]);

#endif
