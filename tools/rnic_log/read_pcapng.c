/* SPDX-License-Identifier: MIT */
/* A log in pcapng. Either byte order of its blocks is read, and blocks that the adapter does not
 * write are passed over: the file may have been through a program of Wireshark's. */
#include <string.h>

#include "adapter/log.h"
#include "read.h"
#include "rnic/entry.h"

enum {
    SECTION = 0x0A0D0D0A,
    ORDER = 0x1A2B3C4D,
    INTERFACE = 1,
    PACKET = 6,
    ETHERNET = 1,
    HEAD_BYTES = 8,  /* type and length of a block */
    TAIL_BYTES = 4,  /* the length once more */
    ORDER_BYTES = 4, /* at the front of a section's body */
    FIXED_BYTES = 20 /* of a packet, before its bytes */
};
enum { OPTION_END, OPTION_FLAGS = 2, OPTION_QUEUE = 6, OPTION_RESOLUTION = 9 };

struct options {
    const uint8_t *at;
    size_t left;
};

/* The next option; false: there is none, or what follows is none. */
static bool next_option(struct options *options, bool big, uint16_t *code, const uint8_t **value,
                        uint16_t *bytes)
{
    size_t padded;

    if (options->left < 4) {
        return false;
    }
    *code = rnic_get16(options->at, big);
    *bytes = rnic_get16(options->at + 2, big);
    *value = options->at + 4;
    padded = (*bytes + 3u) & ~3u;
    if (*code == OPTION_END || padded > options->left - 4) {
        return false;
    }
    options->at += 4 + padded;
    options->left -= 4 + padded;
    return true;
}

static bool add_interface(struct log_reader *reader, const uint8_t *body, size_t length)
{
    struct options options = {body + 8, length - 8};
    uint16_t type = rnic_get16(body, reader->big);
    uint8_t decimals = 6;
    uint16_t code;
    uint16_t bytes;
    const uint8_t *value;

    while (next_option(&options, reader->big, &code, &value, &bytes)) {
        if (code == OPTION_RESOLUTION && bytes == 1) {
            decimals = value[0];
        }
    }
    if (reader->interfaces == sizeof(reader->link_type) || decimals > 9) { /* a power of two has bit 7 */
        return false;
    }
    reader->link_type[reader->interfaces] =
        (uint8_t)(type == ETHERNET || type == RNIC_LOG_LINK_TYPE ? type : 0);
    reader->decimals[reader->interfaces++] = decimals;
    return true;
}

/* A transaction of the interface "card": its header, and the data of a DMA. */
static bool take_transaction(struct rnic_transaction *out, const uint8_t *bytes, uint32_t count)
{
    if (count < RNIC_LOG_HEAD_BYTES || bytes[0] != RNIC_LOG_VERSION || bytes[1] >= RNIC_TRANSACTION_KINDS) {
        return false;
    }
    out->kind = (enum rnic_transaction_kind)bytes[1];
    out->fn = rnic_get16(bytes + 2, true);
    out->bar = bytes[4];
    out->failed = bytes[5] != 0;
    out->address = rnic_get64(bytes + 8, true);
    out->value = rnic_get64(bytes + 16, true);
    out->bytes = rnic_get32(bytes + 24, true);
    if (count > RNIC_LOG_HEAD_BYTES) {
        out->data = bytes + RNIC_LOG_HEAD_BYTES;
        return out->bytes == count - RNIC_LOG_HEAD_BYTES;
    }
    return true;
}

/* A frame: its options say which way it went, and of which function it is. */
static void take_frame(struct rnic_transaction *out, const uint8_t *bytes, uint32_t count,
                       struct options options, bool big)
{
    enum { DIRECTION = 3, INBOUND = 1 };
    uint16_t code;
    uint16_t length;
    const uint8_t *value;

    out->kind = RNIC_TRANSACTION_FRAME_SENT;
    out->bytes = count;
    out->data = bytes;
    while (next_option(&options, big, &code, &value, &length)) {
        if (code == OPTION_FLAGS && length == 4 && (rnic_get32(value, big) & DIRECTION) == INBOUND) {
            out->kind = RNIC_TRANSACTION_FRAME_RECEIVED;
        } else if (code == OPTION_QUEUE && length == 4) {
            out->fn = (uint16_t)rnic_get32(value, big);
        }
    }
}

/* A packet. LOG_GOT_END: it is of an interface that is not of this log. */
static enum log_got take_packet(struct log_reader *reader, const uint8_t *body, size_t length,
                                struct rnic_transaction *out)
{
    bool big = reader->big;
    uint32_t interface = rnic_get32(body, big);
    uint32_t count = rnic_get32(body + 12, big);
    size_t padded = ((size_t)count + 3) & ~(size_t)3;

    if (interface >= reader->interfaces || padded > length - FIXED_BYTES) {
        return log_read_damage(reader, "the packet is not as long as its block says, or of no interface");
    }
    if (reader->link_type[interface] == 0) {
        return LOG_GOT_END;
    }
    *out = (struct rnic_transaction){.time = (uint64_t)rnic_get32(body + 4, big) << 32 |
                                             rnic_get32(body + 8, big)};
    for (unsigned i = reader->decimals[interface]; i < 9; i++) {
        out->time *= 10;
    }
    if (reader->link_type[interface] == ETHERNET) {
        take_frame(out, body + FIXED_BYTES, count,
                   (struct options){body + FIXED_BYTES + padded, length - FIXED_BYTES - padded}, big);
        return LOG_GOT_ONE;
    }
    return take_transaction(out, body + FIXED_BYTES, count)
               ? LOG_GOT_ONE
               : log_read_damage(reader, "the transaction is none of this version");
}

/* A section's byte order is known from its own block alone: the first four bytes of its body. */
static bool begin_section(struct log_reader *reader)
{
    if (!log_read_room(reader, ORDER_BYTES) ||
        fread(reader->buffer, 1, ORDER_BYTES, reader->file) != ORDER_BYTES) {
        return false;
    }
    reader->big = rnic_get32(reader->buffer, true) == ORDER;
    reader->interfaces = 0;
    return reader->big || rnic_get32(reader->buffer, false) == ORDER;
}

/* Reads what is left of a block of `bytes`, of whose body the first `had` are in `buffer`. Returns
 * what is wrong with the block, or NULL. */
static const char *read_body(struct log_reader *reader, uint32_t bytes, size_t had)
{
    size_t end = bytes - HEAD_BYTES; /* of body and tail */

    if (bytes < HEAD_BYTES + had + TAIL_BYTES || bytes % 4 != 0 || bytes > LOG_MAX_DATA) {
        return "the block has an impossible length";
    }
    if (!log_read_room(reader, end)) {
        return "there is no memory for the block";
    }
    if (fread(reader->buffer + had, 1, end - had, reader->file) != end - had) {
        return "the block is cut off";
    }
    return rnic_get32(reader->buffer + end - TAIL_BYTES, reader->big) == bytes ? NULL
                                                                               : "the block has two lengths";
}

/* Reads a block whole; its type, and its body in `buffer`. */
static enum log_got next_block(struct log_reader *reader, uint32_t *type, size_t *length)
{
    uint8_t head[HEAD_BYTES];
    size_t got = fread(head, 1, sizeof(head), reader->file);
    uint32_t bytes;
    const char *damage;

    if (got == 0 && reader->place > 0) {
        return LOG_GOT_END;
    }
    *type =
        got < sizeof(head) ? 0 : rnic_get32(head, reader->big); /* a section's is the same in both orders */
    if (reader->place == 0 && *type != SECTION) {
        return log_read_damage(reader, "it is no log");
    }
    if (got < sizeof(head)) {
        return log_read_damage(reader, "the block is cut off");
    }
    if (*type == SECTION && !begin_section(reader)) {
        return log_read_damage(reader, "the section has no byte order");
    }
    bytes = rnic_get32(head + 4, reader->big);
    damage = read_body(reader, bytes, *type == SECTION ? ORDER_BYTES : 0);
    if (damage != NULL) {
        return log_read_damage(reader, damage);
    }
    *length = bytes - HEAD_BYTES - TAIL_BYTES;
    reader->place += bytes;
    return LOG_GOT_ONE;
}

enum log_got log_read_block(struct log_reader *reader, struct rnic_transaction *out)
{
    uint32_t type;
    size_t length;
    enum log_got got;

    while ((got = next_block(reader, &type, &length)) == LOG_GOT_ONE) {
        if (type == INTERFACE && (length < 8 || !add_interface(reader, reader->buffer, length))) {
            return log_read_damage(reader, "the interface is none of a log");
        }
        if (type == PACKET) {
            got = length < FIXED_BYTES ? log_read_damage(reader, "the packet is cut off")
                                       : take_packet(reader, reader->buffer, length, out);
            if (got != LOG_GOT_END) {
                return got;
            }
        }
    }
    return got;
}
