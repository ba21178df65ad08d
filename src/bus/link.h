/* SPDX-License-Identifier: MIT */
/* One end of a connection of the bus protocol. One thread at a time may use a link's channel. */
#ifndef BUS_LINK_H
#define BUS_LINK_H

#include "base/framer.h"
#include "bus/message.h"

/* Opens a channel for messages of the bus protocol. The channel owns `fd`, also on failure. */
int rnic_bus_link_open(struct vipl_framer *channel, int fd);

/*
 * Stores the header of the next message in *out, and where its data is in *data: in the channel's
 * buffer, until vipl_framer_next() is called. EAGAIN: it has not arrived completely. EPROTO: the
 * peer may not send it; *why is the reason. Any other value: the connection has ended.
 */
int rnic_bus_link_receive(struct vipl_framer *channel, bool from_card, struct rnic_bus_message *out,
                          const uint8_t **data, const char **why);

/* Sends a message with `data_bytes` bytes of data; m->bytes is set here. The errors are those of
 * vipl_framer_send(). */
int rnic_bus_link_send(struct vipl_framer *channel, const struct rnic_bus_message *message, const void *data,
                       size_t data_bytes);

#endif
