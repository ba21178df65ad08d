/* SPDX-License-Identifier: MIT */
/* Control messages and listens: what the driver has to say about them is in cm.h. */
#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "rnic/entry.h"

int vipl_rnic_send_control(struct vipl_rnic *rnic, const uint8_t mac[6], uint16_t function,
                           const uint8_t *message, size_t bytes)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_SEND_CONTROL, 0);
    rnic_put16(command.entry + RNIC_CMD_CONTROL_LENGTH, (uint16_t)bytes, rnic->big);
    memcpy(command.entry + RNIC_CMD_CONTROL_PEER_MAC, mac, 6);
    rnic_put16(command.entry + RNIC_CMD_CONTROL_PEER_FUNCTION, function, rnic->big);
    command.data = message;
    command.bytes = bytes;
    command.data_at = RNIC_CMD_CONTROL_ADDRESS;
    return bytes > sizeof(((struct vipl_rnic_event *)NULL)->message)
               ? EINVAL
               : vipl_rnic_execute(rnic, &command, NULL);
}

static int change_listen(struct vipl_rnic *rnic, unsigned opcode, uint32_t object, const void *discriminator,
                         size_t bytes)
{
    struct rnic_command command;
    if (bytes > RNIC_MAX_DISCRIMINATOR) {
        return EINVAL;
    }
    vipl_rnic_command_init(&command, rnic, opcode, object);
    rnic_put16(command.entry + RNIC_CMD_LISTEN_LENGTH, (uint16_t)bytes, rnic->big);
    command.data = discriminator;
    command.bytes = bytes;
    command.data_at = RNIC_CMD_LISTEN_ADDRESS;
    return vipl_rnic_execute(rnic, &command, NULL);
}

int vipl_rnic_listen_for(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes)
{
    return change_listen(rnic, RNIC_COMMAND_LISTEN, object, discriminator, bytes);
}

int vipl_rnic_listen_end(struct vipl_rnic *rnic, uint32_t object, const void *discriminator, size_t bytes)
{
    return change_listen(rnic, RNIC_COMMAND_UNLISTEN, object, discriminator, bytes);
}

int vipl_rnic_claim(struct vipl_rnic *rnic, const struct vipl_rnic_peer *peer, uint32_t serial)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_CLAIM, 0);
    memcpy(command.entry + RNIC_CMD_CLAIM_PEER_MAC, peer->mac, sizeof(peer->mac));
    rnic_put16(command.entry + RNIC_CMD_CLAIM_PEER_FUNCTION, peer->function, rnic->big);
    rnic_put32(command.entry + RNIC_CMD_CLAIM_PEER_QP, peer->qp, rnic->big);
    rnic_put32(command.entry + RNIC_CMD_CLAIM_SERIAL, serial, rnic->big);
    return vipl_rnic_execute(rnic, &command, NULL);
}
