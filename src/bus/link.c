/* SPDX-License-Identifier: MIT */
/* Where a message ends, by its header, and room for as many as an end may have to send while its
 * peer does not read. */
#include "bus/link.h"

#include <errno.h>

/* All the data that a card may have asked for, and some messages besides. */
enum { MAX_KEPT = (BUS_MAX_DMA_READS + 1) * BUS_MAX_BYTES };

int rnic_bus_link_open(struct vipl_framer *channel, int fd)
{
    return vipl_framer_open(channel, fd, BUS_MAX_BYTES, MAX_KEPT);
}

int rnic_bus_link_receive(struct vipl_framer *channel, bool from_card, struct rnic_bus_message *out,
                          const uint8_t **data, const char **why)
{
    int error = vipl_framer_fill(channel, BUS_HEADER_BYTES);
    if (error != 0) {
        return error;
    }
    rnic_bus_message_read(channel->in, out);
    *why = rnic_bus_message_check(out, from_card);
    if (*why != NULL) {
        return EPROTO;
    }
    *data = channel->in + BUS_HEADER_BYTES;
    return vipl_framer_fill(channel, out->bytes);
}

int rnic_bus_link_send(struct vipl_framer *channel, const struct rnic_bus_message *message, const void *data,
                       size_t data_bytes)
{
    uint8_t header[BUS_HEADER_BYTES];
    struct rnic_bus_message whole = *message;
    whole.bytes = (uint32_t)(BUS_HEADER_BYTES + data_bytes);
    rnic_bus_message_write(header, &whole);
    return vipl_framer_send(channel, header, sizeof(header), data, data_bytes, NULL, 0);
}
