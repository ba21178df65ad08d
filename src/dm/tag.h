/* SPDX-License-Identifier: MIT */
/* The tag of a VLAN, which the kernel takes out of packets that it hands over. */
#ifndef VIPL_DM_TAG_H
#define VIPL_DM_TAG_H

#include <stdint.h>

#include "dm/port.h"

#define DM_TAG_BYTES 4U

/* Puts the tag back into a packet that has arrived in a slot of `room` bytes: behind the addresses.
 * The last bytes of a packet that fills its slot give way. */
void dm_tag_put_back(uint8_t *at, uint32_t room, struct dm_arrival *arrival, unsigned protocol, unsigned tci);

#endif
