/* SPDX-License-Identifier: MIT */
/* The header of a message, and which headers an end may send. */
#include "bus/message.h"

#include "base/little.h"

/* Offsets of the fields of the header. */
enum {
    AT_BYTES = 0,
    AT_KIND = 4,
    AT_FUNCTION = 6,
    AT_TIME = 8,
    AT_ID = 16,
    AT_WIDTH = 20,
    AT_SPACE = 22,
    AT_STATUS = 23,
    AT_ADDRESS = 24,
    AT_VALUE = 32
};

void rnic_bus_message_write(uint8_t out[BUS_HEADER_BYTES], const struct rnic_bus_message *message)
{
    vipl_put_little(out + AT_BYTES, message->bytes, 4);
    vipl_put_little(out + AT_KIND, message->kind, 2);
    vipl_put_little(out + AT_FUNCTION, message->function, 2);
    vipl_put_little(out + AT_TIME, message->time, 8);
    vipl_put_little(out + AT_ID, message->id, 4);
    vipl_put_little(out + AT_WIDTH, message->width, 2);
    out[AT_SPACE] = message->space;
    out[AT_STATUS] = message->status;
    vipl_put_little(out + AT_ADDRESS, message->address, 8);
    vipl_put_little(out + AT_VALUE, message->value, 8);
}

void rnic_bus_message_read(const uint8_t in[BUS_HEADER_BYTES], struct rnic_bus_message *out)
{
    out->bytes = vipl_get_little32(in + AT_BYTES);
    out->kind = vipl_get_little16(in + AT_KIND);
    out->function = vipl_get_little16(in + AT_FUNCTION);
    out->time = vipl_get_little64(in + AT_TIME);
    out->id = vipl_get_little32(in + AT_ID);
    out->width = vipl_get_little16(in + AT_WIDTH);
    out->space = in[AT_SPACE];
    out->status = in[AT_STATUS];
    out->address = vipl_get_little64(in + AT_ADDRESS);
    out->value = vipl_get_little64(in + AT_VALUE);
}

/* --- what an end may send --- */

enum { FROM_HOST = 1, FROM_CARD = 2 };
enum { ACCESSES = 1, READS_MEMORY = 2, WRITES_MEMORY = 4, ANSWERS = 8 };

static const struct rule {
    uint8_t from; /* who may send it */
    uint8_t what;
    uint16_t max_data; /* bytes behind the header */
} rules[] = {
    [BUS_HELLO] = {FROM_HOST | FROM_CARD, ANSWERS, BUS_CARD_HELLO_BYTES}, /* of the card; see below */
    [BUS_READ] = {FROM_HOST, ACCESSES, 0},
    [BUS_WRITE] = {FROM_HOST, ACCESSES, 0},
    [BUS_RESET] = {FROM_HOST, 0, 0},
    [BUS_DONE] = {FROM_CARD, ANSWERS, 0},
    [BUS_DMA_READ] = {FROM_CARD, READS_MEMORY, 0},
    [BUS_DMA_DATA] = {FROM_HOST, ANSWERS, BUS_MAX_DMA},
    [BUS_DMA_WRITE] = {FROM_CARD, WRITES_MEMORY, BUS_MAX_DMA},
    [BUS_INTERRUPT] = {FROM_CARD, 0, 0},
    [BUS_BYE] = {FROM_HOST | FROM_CARD, 0, 0},
};

static const char *check_access(const struct rnic_bus_message *m)
{
    bool is_width = m->width == 1 || m->width == 2 || m->width == 4 || m->width == 8;
    if (!is_width || m->address % m->width != 0) {
        return "a register access has a width that does not exist, or is not aligned to it";
    }
    return m->space < BUS_BARS || m->space == BUS_CONFIG ? NULL : "a register access has no such space";
}

static const char *check_memory(const struct rnic_bus_message *m, uint64_t bytes)
{
    bool is_range = bytes >= 1 && bytes <= BUS_MAX_DMA && m->address <= UINT64_MAX - (bytes - 1);
    return is_range ? NULL : "a DMA is empty, too long, or runs over the end of the addresses";
}

const char *rnic_bus_message_check(const struct rnic_bus_message *message, bool from_card)
{
    bool is_kind = message->kind >= BUS_HELLO && message->kind <= BUS_BYE;
    const struct rule *rule = &rules[is_kind ? message->kind : 0];
    if ((rule->from & (from_card ? FROM_CARD : FROM_HOST)) == 0) {
        return "a message of a kind that this end does not send";
    }
    if (message->bytes < BUS_HEADER_BYTES || message->bytes - BUS_HEADER_BYTES > rule->max_data) {
        return "a message has a length that its kind does not have";
    }
    bool is_question = message->kind == BUS_HELLO && !from_card;
    if (message->status > ((rule->what & ANSWERS) != 0 && !is_question ? 1 : 0)) {
        return "a message has a status that does not exist";
    }
    bool has_none = is_question || (message->kind == BUS_DMA_DATA && message->status != 0);
    if (has_none && message->bytes != BUS_HEADER_BYTES) {
        return "a HELLO of the host, or a refusal, has data";
    }
    if ((rule->what & ACCESSES) != 0) {
        return check_access(message);
    }
    if ((rule->what & READS_MEMORY) != 0) {
        return check_memory(message, message->value);
    }
    return (rule->what & WRITES_MEMORY) != 0 ? check_memory(message, message->bytes - BUS_HEADER_BYTES)
                                             : NULL;
}
