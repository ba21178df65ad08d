/* SPDX-License-Identifier: MIT */
/* Selecting transactions. */
#include "select.h"

#include "frame.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

void select_begin(struct selection *selection, const struct log_options *options)
{
    *selection = (struct selection){.options = options};
}

static uint64_t absolute(const struct log_place *time, uint64_t begin, uint64_t otherwise)
{
    if (!time->is_set || time->number > 0) {
        return otherwise;
    }
    return time->is_relative ? begin + time->ns : time->ns;
}

static uint32_t get(const struct ring_entry *entry, const uint8_t *bytes, unsigned offset)
{
    return rnic_get32(bytes + offset, entry->big);
}

/* The queue pair that a command is about, or -1. Only CREATE_QP's answer knows that one's. */
static int64_t qp_of_command(const struct ring_entry *entry, const uint8_t *command, const uint8_t *answer)
{
    switch (rnic_get16(command + RNIC_CMD_OPCODE, entry->big)) {
    case RNIC_COMMAND_CREATE_QP:
        return answer == NULL ? -1 : (int64_t)get(entry, answer, RNIC_CQE_INFO);
    case RNIC_COMMAND_MODIFY_QP:
    case RNIC_COMMAND_SET_RING:
    case RNIC_COMMAND_DESTROY_QP:
    case RNIC_COMMAND_QUERY_QP:
    case RNIC_COMMAND_ASSIGN_WINDOW:
    case RNIC_COMMAND_SET_TEMPLATE:
        return get(entry, command, RNIC_CMD_OBJECT);
    default:
        return -1;
    }
}

static int64_t qp_of_entry(const struct ring_entry *entry)
{
    switch (entry->kind) {
    case RING_COMMAND:
        return qp_of_command(entry, entry->bytes, NULL);
    case RING_ANSWER:
        return qp_of_command(entry, entry->command, entry->bytes);
    case RING_EVENT:
        return rnic_get16(entry->bytes + RNIC_EVT_KIND, entry->big) == RNIC_EVENT_QP_ERROR
                   ? (int64_t)get(entry, entry->bytes, RNIC_EVT_OBJECT)
                   : -1;
    case RING_COMPLETION:
        return get(entry, entry->bytes, RNIC_CQE_QP);
    default:
        return entry->object;
    }
}

/* The queue pair of this card that a transaction is about, or -1. */
static int64_t qp_of(const struct rnic_transaction *c, const struct ring_entry *entry)
{
    enum { BYTES = 64 };
    struct efe_header frame;

    if (entry != NULL) {
        return qp_of_entry(entry);
    }
    if (c->kind == RNIC_TRANSACTION_DOORBELL && c->address >= RNIC_DB_QP && c->address < RNIC_DB_CQ) {
        return (int64_t)((c->address - RNIC_DB_QP) / BYTES);
    }
    bool sent = c->kind == RNIC_TRANSACTION_FRAME_SENT;
    if (log_frame_read(c, &frame) && (frame.type == EFE_DATA || frame.type == EFE_MESSAGE_ACK)) {
        return sent ? frame.from_qp : frame.to_qp;
    }
    return -1;
}

bool select_wants(struct selection *selection, const struct rnic_transaction *c,
                  const struct ring_entry *entry)
{
    const struct log_options *options = selection->options;

    if (!selection->begun) {
        selection->begun = true;
        selection->from = absolute(&options->from, c->time, 0);
        selection->until = absolute(&options->until, c->time, UINT64_MAX);
    }
    selection->number++;
    if (selection->over || c->time > selection->until ||
        (options->until.number > 0 && selection->number > options->until.number)) {
        selection->over = true;
        return false;
    }
    selection->over = options->until_failed && c->failed;
    if (c->time < selection->from || selection->number < options->from.number ||
        (options->kinds & 1u << c->kind) == 0) {
        return false;
    }
    if (options->some_functions && (c->fn >= RNIC_CARD_MAX_FUNCTIONS || !options->functions[c->fn])) {
        return false;
    }
    return options->qp < 0 || qp_of(c, entry) == options->qp;
}
