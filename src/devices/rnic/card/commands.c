/* SPDX-License-Identifier: MIT */
/* The command ring: each entry is copied, executed by the file that its object belongs to, and
 * answered at the same index. */
#include "devices/rnic/card/steps.h"

#include "devices/rnic/card/aotf.h"
#include "devices/rnic/card/claim.h"
#include "devices/rnic/card/command.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/listen.h"
#include "devices/rnic/card/message.h"
#include "devices/rnic/card/mr.h"
#include "devices/rnic/card/window.h"

static uint16_t do_nothing(struct rnic_card *card, struct rnic_command *command)
{
    (void)card;
    (void)command;
    return RNIC_STATUS_OK;
}

static uint16_t (*const functions[])(struct rnic_card *card, struct rnic_command *command) = {
    [RNIC_COMMAND_NOP] = do_nothing,
    [RNIC_COMMAND_CREATE_CQ] = rnic_cq_create,
    [RNIC_COMMAND_RESIZE_CQ] = rnic_cq_resize,
    [RNIC_COMMAND_DESTROY_CQ] = rnic_cq_destroy,
    [RNIC_COMMAND_CREATE_QP] = rnic_qp_create,
    [RNIC_COMMAND_MODIFY_QP] = rnic_qp_modify,
    [RNIC_COMMAND_SET_RING] = rnic_qp_set_ring,
    [RNIC_COMMAND_DESTROY_QP] = rnic_qp_destroy,
    [RNIC_COMMAND_QUERY_QP] = rnic_qp_query,
    [RNIC_COMMAND_REGISTER] = rnic_mr_register,
    [RNIC_COMMAND_CHANGE_MR] = rnic_mr_change,
    [RNIC_COMMAND_INVALIDATE] = rnic_mr_invalidate,
    [RNIC_COMMAND_LISTEN] = rnic_listen_begin,
    [RNIC_COMMAND_UNLISTEN] = rnic_listen_end,
    [RNIC_COMMAND_SEND_CONTROL] = rnic_message_send,
    [RNIC_COMMAND_CLAIM] = rnic_claim_take,
    [RNIC_COMMAND_ASSIGN_WINDOW] = rnic_window_assign,
    [RNIC_COMMAND_SET_TEMPLATE] = rnic_aotf_set_template,
};
enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static bool fetch(struct rnic_card *card, struct rnic_command *command)
{
    const struct rnic_fn *f = rnic_fn(card, command->fn);
    uint32_t place = f->command.next & ((1u << f->command.log2) - 1);
    command->big = f->big != 0;
    return rnic_dma_read(card, command->fn, 0, f->command.base + (uint64_t)place * RNIC_COMMAND_BYTES,
                         command->bytes, sizeof(command->bytes));
}

static uint16_t execute(struct rnic_card *card, struct rnic_command *command)
{
    uint16_t opcode = rnic_command16(command, RNIC_CMD_OPCODE);
    command->object = rnic_command32(command, RNIC_CMD_OBJECT);
    if (opcode >= FUNCTIONS) {
        return RNIC_STATUS_INVALID;
    }
    if (rnic_fault_strikes(card, command->fn, RNIC_FAULT_COMMAND_FAIL)) {
        return RNIC_STATUS_DMA;
    }
    return functions[opcode](card, command);
}

static bool write_answer(struct rnic_card *card, const struct rnic_command *command, uint16_t status)
{
    const struct rnic_fn *f = rnic_fn(card, command->fn);
    struct rnic_completion completion = {.qp = command->object,
                                         .cookie = rnic_command32(command, RNIC_CMD_COOKIE),
                                         .length = command->answer.length,
                                         .immediate = command->answer.immediate,
                                         .info = command->answer.info,
                                         .status = status,
                                         .opcode = (uint8_t)rnic_command16(command, RNIC_CMD_OPCODE)};
    return rnic_completion_write(card, command->fn, 0, &f->answer, f->command.next, &completion) &&
           rnic_completion_publish(card, command->fn, 0, &f->answer, f->command.next);
}

/* Executes the next command. Returns false if it has to wait, and with it all later commands. */
static bool run_one(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    struct rnic_command command = {.fn = fn};
    if (f->command.producer - f->command.next > 1u << f->command.log2) {
        rnic_catastrophe(card, fn, RNIC_ERROR_RING_INDEX, 0);
        return false;
    }
    if (!fetch(card, &command)) {
        rnic_catastrophe(card, fn, RNIC_ERROR_RING_DMA, 0);
        return false;
    }
    if (f->command_dead || rnic_fault_strikes(card, fn, RNIC_FAULT_COMMAND_TIMEOUT)) {
        f->command_dead = true;
        return false;
    }
    uint16_t status = execute(card, &command);
    if (status == RNIC_COMMAND_WAITS || !rnic_works(card, fn)) {
        return false;
    }
    rnic_count(card, fn, RNIC_COUNT_COMMANDS, 1);
    if (!write_answer(card, &command, status)) {
        rnic_catastrophe(card, fn, RNIC_ERROR_RING_DMA, 0);
        return false;
    }
    f->command.next++;
    if (!f->quiet) {
        rnic_interrupt_raise(card, fn, 0);
    }
    return true;
}

uint32_t rnic_commands_run(struct rnic_card *card, uint32_t most)
{
    uint32_t done = 0;
    rnic_state(card)->control_due = UINT64_MAX; /* those that wait say so again */
    for (unsigned fn = 0; fn < rnic_state(card)->config.functions; fn++) {
        const struct rnic_fn *f = rnic_fn(card, fn);
        for (uint32_t n = 0; n < most && rnic_works(card, fn) && f->command.next != f->command.producer;
             n++) {
            if (!run_one(card, fn)) {
                break;
            }
            done++;
            rnic_state(card)->kick = rnic_state(card)->kick || n + 1 == most;
        }
    }
    return done;
}
