/* SPDX-License-Identifier: MIT */
/* The registers of BAR0, a word at a time. What is not listed reads as 0 and ignores stores. */
#include "devices/rnic/card/steps.h"

#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/reset.h"
#include "devices/rnic/card/wire.h"

enum { COUNTERS = RNIC_REG_TX_FRAMES_LO, COUNTERS_END = COUNTERS + 8 * RNIC_COUNTERS };

static uint32_t half(uint64_t value, bool high)
{
    return (uint32_t)(high ? value >> 32 : value);
}

/* What the card is: the same for all functions. */
static uint32_t read_identity(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    const struct rnic_card_config *config = &rnic_state(card)->config;
    const uint8_t *mac = config->mac;
    switch (offset) {
    case RNIC_REG_ID:
        return RNIC_ID_VALUE;
    case RNIC_REG_VERSION:
        return 0x00010003;
    case RNIC_REG_CAPS:
        return RNIC_CAPS_BIG_ENDIAN | RNIC_CAPS_BOTF | RNIC_CAPS_AOTF |
               (rnic_card_bar4_bytes(config) > 0 ? (uint32_t)RNIC_CAPS_DEVICE_MEMORY : 0) |
               (rnic_raw_allows(config, fn) ? (uint32_t)RNIC_CAPS_RAW : 0);
    case RNIC_REG_DRAM_BYTES:
        return config->dram_bytes;
    case RNIC_REG_SRAM_BYTES:
        return config->sram_bytes;
    case RNIC_REG_MAX_QPS:
        return config->qps;
    case RNIC_REG_MAX_CQS:
        return config->cqs;
    case RNIC_REG_MAX_STAGS:
        return config->stags;
    case RNIC_REG_MAX_PBL:
        return config->pbl_entries;
    case RNIC_REG_MAX_LISTENS:
        return RNIC_LISTENS;
    case RNIC_REG_MAX_WORK:
        return RNIC_WORK_LOG2_MAX;
    case RNIC_REG_MAX_COMPLETIONS:
        return RNIC_COMPLETION_LOG2_MAX;
    case RNIC_REG_MAX_SEGMENTS:
        return RNIC_SEGMENT_LIMIT;
    case RNIC_REG_MAX_TRANSFER:
        return RNIC_TRANSFER_MAX;
    case RNIC_REG_MTU:
        return config->mtu;
    case RNIC_REG_READ_SLOTS:
        return (uint32_t)RNIC_READ_SLOTS << RNIC_READ_SLOTS_ORD_SHIFT | RNIC_READ_SLOTS;
    case RNIC_REG_MAC_LO:
        return (uint32_t)mac[0] | (uint32_t)mac[1] << 8 | (uint32_t)mac[2] << 16 | (uint32_t)mac[3] << 24;
    case RNIC_REG_MAC_HI:
        return (uint32_t)mac[4] | (uint32_t)mac[5] << 8;
    case RNIC_REG_FUNCTION:
        return config->functions << RNIC_FUNCTION_COUNT_SHIFT | fn;
    default:
        return offset == RNIC_REG_LINK_MBITS ? rnic_wire_mbits(card) : 0;
    }
}

static uint32_t read_ring_base(const struct rnic_fn *f, uint32_t offset)
{
    switch (offset & ~4u) {
    case RNIC_REG_COMMAND_BASE_LO:
        return half(f->command_base, offset != RNIC_REG_COMMAND_BASE_LO);
    case RNIC_REG_ANSWER_BASE_LO:
        return half(f->answer_base, offset != RNIC_REG_ANSWER_BASE_LO);
    case RNIC_REG_EVENT_BASE_LO:
        return half(f->event_base, offset != RNIC_REG_EVENT_BASE_LO);
    default:
        return offset == RNIC_REG_COMMAND_LOG2 ? f->command_log2
               : offset == RNIC_REG_EVENT_LOG2 ? f->event_log2
                                               : 0;
    }
}

static uint32_t read_status(const struct rnic_card *card, const struct rnic_fn *f)
{
    return (uint32_t)RNIC_STATUS_READY | (f->enabled ? (uint32_t)RNIC_STATUS_ENABLED : 0) |
           (f->catastrophic ? (uint32_t)RNIC_STATUS_CATASTROPHIC : 0) |
           (rnic_state(card)->link_up ? (uint32_t)RNIC_STATUS_LINK_UP : 0);
}

/* State of the function. */
static uint32_t read_function(const struct rnic_card *card, const struct rnic_fn *f, uint32_t offset)
{
    switch (offset) {
    case RNIC_REG_CTRL:
        return (f->enabled ? (uint32_t)RNIC_CTRL_ENABLE : 0) | (f->big ? (uint32_t)RNIC_CTRL_BYTE_ORDER : 0) |
               (f->quiet ? (uint32_t)RNIC_CTRL_QUIET : 0);
    case RNIC_REG_STATUS:
        return read_status(card, f);
    case RNIC_REG_ERROR_CODE:
        return f->error_code;
    case RNIC_REG_ERROR_OBJECT:
        return f->error_object;
    case RNIC_REG_ERROR_ADDRESS_LO:
    case RNIC_REG_ERROR_ADDRESS_HI:
        return half(f->error_address, offset == RNIC_REG_ERROR_ADDRESS_HI);
    case RNIC_REG_ERROR_COUNT:
        return f->error_count;
    case RNIC_REG_INT_CAUSE:
        return f->int_cause;
    case RNIC_REG_INT_MASK:
        return f->int_mask;
    case RNIC_REG_INT_DELAY_US:
        return f->int_delay_us;
    case RNIC_REG_INT_COUNT:
        return f->int_count;
    case RNIC_REG_QPS_USED:
        return f->used_qps;
    case RNIC_REG_CQS_USED:
        return f->used_cqs;
    case RNIC_REG_STAGS_USED:
        return f->used_stags;
    default:
        return offset == RNIC_REG_PBL_USED ? f->used_pbl : read_ring_base(f, offset);
    }
}

uint32_t rnic_control_read(const struct rnic_card *card, unsigned fn, uint32_t offset)
{
    const struct rnic_fn *f = rnic_fn(card, fn);
    if (offset >= COUNTERS && offset < COUNTERS_END) {
        return half(f->counter[(offset - COUNTERS) / 8], offset % 8 != 0);
    }
    if (offset >= RNIC_MSIX_TABLE) {
        return rnic_msix_read(f, offset);
    }
    bool identity = offset < RNIC_REG_CTRL || (offset >= RNIC_REG_MAC_LO && offset <= RNIC_REG_LINK_MBITS);
    return identity ? read_identity(card, fn, offset) : read_function(card, f, offset);
}

static void write_half(uint64_t *at, bool high, uint32_t value)
{
    *at = high ? (*at & UINT32_MAX) | (uint64_t)value << 32 : (*at & ~(uint64_t)UINT32_MAX) | value;
}

/* The rings' places: only while the function is disabled. */
static void write_ring_base(struct rnic_fn *f, uint32_t offset, uint32_t value)
{
    bool high = (offset & 4) != 0;
    switch (offset & ~4u) {
    case RNIC_REG_COMMAND_BASE_LO:
        write_half(&f->command_base, high, value);
        break;
    case RNIC_REG_ANSWER_BASE_LO:
        write_half(&f->answer_base, high, value);
        break;
    case RNIC_REG_EVENT_BASE_LO:
        write_half(&f->event_base, high, value);
        break;
    case RNIC_REG_COMMAND_LOG2:
        f->command_log2 = high ? f->command_log2 : value;
        break;
    case RNIC_REG_EVENT_LOG2:
        f->event_log2 = high ? f->event_log2 : value;
        break;
    default:
        break;
    }
}

static void write_ctrl(struct rnic_card *card, unsigned fn, uint32_t value)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    bool enable = (value & RNIC_CTRL_ENABLE) != 0;
    if ((value & RNIC_CTRL_RESET) != 0 || (f->enabled && !enable)) {
        rnic_reset(card, fn);
        return;
    }
    if (!f->enabled) {
        f->big = (value & RNIC_CTRL_BYTE_ORDER) != 0;
        f->quiet = (value & RNIC_CTRL_QUIET) != 0;
        if (enable) {
            rnic_enable(card, fn);
        }
    }
}

static void clear_error_log(struct rnic_fn *f)
{
    f->error_code = RNIC_ERROR_NONE;
    f->error_object = 0;
    f->error_address = 0;
    f->error_count = 0;
}

void rnic_control_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    switch (offset) {
    case RNIC_REG_CTRL:
        write_ctrl(card, fn, value);
        break;
    case RNIC_REG_ERROR_COUNT:
        clear_error_log(f);
        break;
    case RNIC_REG_INT_CAUSE:
        f->int_cause &= ~value;
        break;
    case RNIC_REG_INT_MASK:
        f->int_mask = value & ((1u << RNIC_VECTORS) - 1);
        rnic_interrupt_unmasked(card, fn);
        break;
    case RNIC_REG_INT_DELAY_US:
        f->int_delay_us = value;
        break;
    case RNIC_REG_INT_COUNT:
        f->int_count = value;
        break;
    case RNIC_REG_WAKE:
        rnic_count(card, fn, RNIC_COUNT_WAKES, 1);
        rnic_state(card)->kick = true;
        break;
    default:
        if (offset >= RNIC_MSIX_TABLE) {
            rnic_msix_write(card, fn, offset, value);
        } else if (!f->enabled) {
            write_ring_base(f, offset, value);
        }
    }
}
