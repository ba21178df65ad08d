/* SPDX-License-Identifier: MIT */
/*
 * The command ring. A card that does not answer one is taken for dead.
 */
#include "backends/rnic/verbs/command.h"

#include <errno.h>
#include <string.h>

#include "backends/rnic/verbs/function.h"
#include "base/lock_rank.h"
#include "os/os.h"
#include "rnic/entry.h"

enum { DATA_BYTES = 512 };

_Static_assert(16 + RNIC_CONTROL_PAYLOAD <= DATA_BYTES, "a control message fits");

int vipl_rnic_commands_open(struct vipl_rnic *rnic)
{
    struct rnic_commands *commands = &rnic->commands;
    size_t entries = 1u << RNIC_COMMANDS_LOG2;
    vipl_mutex_init(&commands->lock, VIPL_RANK_RNIC_COMMAND);
    int error = vipl_rnic_block_get(&rnic->slabs, entries * RNIC_COMMAND_BYTES, true, &commands->ring);
    error = error != 0 ? error
                       : vipl_rnic_block_get(&rnic->slabs, entries * RNIC_COMPLETION_BYTES, true,
                                             &commands->answers);
    return error != 0 ? error : vipl_rnic_block_get(&rnic->slabs, DATA_BYTES, true, &commands->data);
}

void vipl_rnic_command_init(struct rnic_command *command, const struct vipl_rnic *rnic, unsigned opcode,
                            uint32_t object)
{
    memset(command, 0, sizeof(*command));
    rnic_put16(command->entry + RNIC_CMD_OPCODE, (uint16_t)opcode, rnic->big);
    rnic_put32(command->entry + RNIC_CMD_OBJECT, object, rnic->big);
}

static uint8_t *command_entry(const struct rnic_block *ring, uint32_t index, size_t entry_bytes)
{
    return ring->base + (index & ((1u << RNIC_COMMANDS_LOG2) - 1)) * entry_bytes;
}

static void post_locked(struct vipl_rnic *rnic, const struct rnic_command *command)
{
    struct rnic_commands *commands = &rnic->commands;
    uint8_t *entry = command_entry(&commands->ring, commands->producer, RNIC_COMMAND_BYTES);
    memcpy(entry, command->entry, RNIC_COMMAND_BYTES);
    rnic_put32(entry + RNIC_CMD_COOKIE, commands->producer, rnic->big);
    if (command->data != NULL) {
        memcpy(commands->data.base, command->data, command->bytes);
        rnic_put64(entry + command->data_at, commands->data.iova, rnic->big);
    }
    commands->producer++;
    vipl_rnic_ring(rnic, RNIC_DB_COMMAND_PRODUCER, commands->producer, 0);
}

/* False: the card is dead. */
static bool await_locked(struct vipl_rnic *rnic, const uint8_t *answer)
{
    uint32_t owner = rnic->commands.producer; /* one more than the index of the command */
    struct vipl_rnic_wait wait = {0};
    while (rnic_owner(answer + RNIC_CQE_OWNER) != owner) {
        if (!vipl_rnic_wait_on(rnic, &wait)) {
            return false;
        }
    }
    return true;
}

static int command_error(uint16_t status)
{
    switch (status) {
    case RNIC_STATUS_OK:
        return 0;
    case RNIC_STATUS_NO_OBJECT:
        return ENOENT;
    case RNIC_STATUS_WRONG_STATE:
        return EALREADY;
    case RNIC_STATUS_BUSY:
        return EBUSY;
    case RNIC_STATUS_NO_ROOM:
        return ENOSPC;
    case RNIC_STATUS_IN_USE:
        return EADDRINUSE;
    case RNIC_STATUS_DMA:
        return EFAULT;
    default:
        return EINVAL;
    }
}

static int execute_locked(struct vipl_rnic *rnic, const struct rnic_command *command, struct rnic_answer *out)
{
    struct rnic_commands *commands = &rnic->commands;
    if (vipl_rnic_is_dead(rnic)) {
        return ENODEV;
    }
    const uint8_t *answer = command_entry(&commands->answers, commands->producer, RNIC_COMPLETION_BYTES);
    post_locked(rnic, command);
    if (!await_locked(rnic, answer)) {
        vipl_rnic_fail(rnic, "the card does not answer a command");
        return ENODEV;
    }
    if (out != NULL) {
        out->info = rnic_get32(answer + RNIC_CQE_INFO, rnic->big);
        out->length = rnic_get32(answer + RNIC_CQE_LENGTH, rnic->big);
        out->immediate = rnic_get32(answer + RNIC_CQE_IMMEDIATE, rnic->big);
    }
    return command_error(rnic_get16(answer + RNIC_CQE_STATUS, rnic->big));
}

int vipl_rnic_execute(struct vipl_rnic *rnic, const struct rnic_command *command, struct rnic_answer *out)
{
    vipl_mutex_lock(&rnic->commands.lock);
    int error = execute_locked(rnic, command, out);
    vipl_mutex_unlock(&rnic->commands.lock);
    return error;
}
