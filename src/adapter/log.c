/* SPDX-License-Identifier: MIT */
/* Writing the log. Numbers in pcapng's own blocks are little-endian on every host, so that the same
 * run gives the same bytes. */
#include "adapter/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/little.h"

enum {
    BUFFER_BYTES = 1 << 20,
    SECTION = 0x0A0D0D0A,
    INTERFACE = 1,
    PACKET = 6,
    ETHERNET = 1,
    OF_FRAMES = 0, /* the interfaces' numbers */
    OF_OTHERS = 1,
    OPTION_FLAGS = 2, /* of a packet: which way it went */
    OPTION_QUEUE = 6, /* ... and of what function it is */
    OPTION_NAME = 2,  /* of an interface, as the next one */
    OPTION_RESOLUTION = 9,
    INBOUND = 1,
    OUTBOUND = 2
};

int rnic_log_error(const struct rnic_log *log)
{
    return log->error;
}

static void put(struct rnic_log *log, const void *bytes, size_t count)
{
    if (log->error == 0 && count > 0 && fwrite(bytes, 1, count, log->file) != count) {
        log->error = errno == 0 ? EIO : errno;
    }
}

/* --- text --- */

static const char *const names[RNIC_TRANSACTION_KINDS] = {
    "config-read", "config-write", "register-read", "register-write", "doorbell", "dma-read",
    "dma-write",   "interrupt",    "frame-sent",    "frame-received", "reset",    "sleep",
    "window",      "card",         "impair",        "faults",         "attach",   "detach",
    "link",        "receive",      "advance",       "try-sleep",      "load",     "gone"};

const char *rnic_log_kind(enum rnic_transaction_kind kind)
{
    return names[kind];
}

static void put_hex(struct rnic_log *log, const uint8_t *data, uint32_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < bytes; i++) {
        char text[2] = {digits[data[i] >> 4], digits[data[i] & 15]};
        put(log, text, sizeof(text));
    }
}

static void write_line(struct rnic_log *log, const struct rnic_transaction *c)
{
    const uint64_t second = 1000000000;
    char line[192];
    int length =
        snprintf(line, sizeof(line),
                 "%" PRIu64 ".%09" PRIu64 " fn=%u %s%s bar=%u address=0x%" PRIx64 " value=0x%" PRIx64
                 " bytes=%" PRIu32 "%s",
                 c->time / second, c->time % second, c->fn, names[c->kind], c->failed ? " failed" : "",
                 c->bar, c->address, c->value, c->bytes, c->data == NULL ? "" : " data=");
    put(log, line, (size_t)length);
    if (c->data != NULL) {
        put_hex(log, c->data, c->bytes);
    }
    put(log, "\n", 1);
}

/* --- pcapng --- */

static uint32_t padded(uint32_t bytes)
{
    return (bytes + 3) & ~3u;
}

static void log_put32(struct rnic_log *log, uint32_t value)
{
    uint8_t bytes[4];
    vipl_put_little(bytes, value, sizeof(bytes));
    put(log, bytes, sizeof(bytes));
}

static void log_put16(struct rnic_log *log, uint16_t value)
{
    uint8_t bytes[2];
    vipl_put_little(bytes, value, sizeof(bytes));
    put(log, bytes, sizeof(bytes));
}

static void put_padding(struct rnic_log *log, uint32_t bytes)
{
    static const uint8_t zeros[4];
    put(log, zeros, padded(bytes) - bytes);
}

static void put_option(struct rnic_log *log, uint16_t code, const void *value, uint16_t bytes)
{
    log_put16(log, code);
    log_put16(log, bytes);
    put(log, value, bytes);
    put_padding(log, bytes);
}

static void put_option32(struct rnic_log *log, uint16_t code, uint32_t value)
{
    uint8_t bytes[4];
    vipl_put_little(bytes, value, sizeof(bytes));
    put_option(log, code, bytes, sizeof(bytes));
}

static void put_section(struct rnic_log *log)
{
    enum { BYTES = 28 };
    log_put32(log, SECTION);
    log_put32(log, BYTES);
    log_put32(log, 0x1A2B3C4D); /* which tells the byte order */
    log_put16(log, 1);
    log_put16(log, 0);
    log_put32(log, UINT32_MAX); /* its length is not known, in two halves */
    log_put32(log, UINT32_MAX);
    log_put32(log, BYTES);
}

static void put_interface(struct rnic_log *log, uint16_t link_type, const char *name)
{
    static const uint8_t nanoseconds = 9; /* ten to the minus ninth of a second */
    uint16_t length = (uint16_t)strlen(name);
    uint32_t bytes = 20 + 4 + padded(length) + 4 + padded(sizeof(nanoseconds)) + 4;
    log_put32(log, INTERFACE);
    log_put32(log, bytes);
    log_put16(log, link_type);
    log_put16(log, 0);
    log_put32(log, 0); /* packets of any length */
    put_option(log, OPTION_NAME, name, length);
    put_option(log, OPTION_RESOLUTION, &nanoseconds, sizeof(nanoseconds));
    put_option(log, 0, NULL, 0);
    log_put32(log, bytes);
}

static void put_head(struct rnic_log *log, const struct rnic_transaction *c)
{
    uint8_t head[RNIC_LOG_HEAD_BYTES] = {RNIC_LOG_VERSION, (uint8_t)c->kind, (uint8_t)(c->fn >> 8),
                                         (uint8_t)c->fn,   c->bar,           c->failed ? 1 : 0};
    for (unsigned i = 0; i < 8; i++) { /* big-endian, as frames are */
        head[8 + i] = (uint8_t)(c->address >> (56 - 8 * i));
        head[16 + i] = (uint8_t)(c->value >> (56 - 8 * i));
    }
    for (unsigned i = 0; i < 4; i++) {
        head[24 + i] = (uint8_t)(c->bytes >> (24 - 8 * i));
    }
    put(log, head, sizeof(head));
}

static bool is_frame(const struct rnic_transaction *c)
{
    return c->kind == RNIC_TRANSACTION_FRAME_SENT || c->kind == RNIC_TRANSACTION_FRAME_RECEIVED;
}

static void write_packet(struct rnic_log *log, const struct rnic_transaction *c)
{
    uint32_t data = c->data == NULL ? 0 : c->bytes;
    uint32_t bytes = data + (is_frame(c) ? 0 : (uint32_t)RNIC_LOG_HEAD_BYTES);
    uint32_t block = 32 + padded(bytes) + (is_frame(c) ? 20u : 0u);
    log_put32(log, PACKET);
    log_put32(log, block);
    log_put32(log, is_frame(c) ? OF_FRAMES : OF_OTHERS);
    log_put32(log, (uint32_t)(c->time >> 32));
    log_put32(log, (uint32_t)c->time);
    log_put32(log, bytes);
    log_put32(log, bytes);
    if (!is_frame(c)) {
        put_head(log, c);
    }
    put(log, c->data, data);
    put_padding(log, bytes);
    if (is_frame(c)) {
        put_option32(log, OPTION_FLAGS, c->kind == RNIC_TRANSACTION_FRAME_SENT ? OUTBOUND : INBOUND);
        put_option32(log, OPTION_QUEUE, c->fn);
        put_option(log, 0, NULL, 0);
    }
    log_put32(log, block);
}

/* --- either --- */

void rnic_log_write(struct rnic_log *log, const struct rnic_transaction *transaction)
{
    if (log->error != 0 || (unsigned)transaction->kind >= sizeof(names) / sizeof(names[0])) {
        return;
    }
    if (log->is_text) {
        write_line(log, transaction);
    } else {
        write_packet(log, transaction);
    }
}

void rnic_log_flush(struct rnic_log *log)
{
    if (log->error == 0 && fflush(log->file) != 0) {
        log->error = errno;
    }
}

bool rnic_log_is_text(const char *path)
{
    static const char end[] = ".txt";
    size_t length = strlen(path);
    return length >= sizeof(end) - 1 && strcmp(path + length - (sizeof(end) - 1), end) == 0;
}

void rnic_log_to(struct rnic_log *log, FILE *file, bool is_text)
{
    *log = (struct rnic_log){.file = file, .is_text = is_text};
    (void)setvbuf(file, NULL, _IOFBF, BUFFER_BYTES);
    if (!is_text) {
        put_section(log);
        put_interface(log, ETHERNET, "wire");
        put_interface(log, RNIC_LOG_LINK_TYPE, "card");
    }
}

int rnic_log_open(struct rnic_log *log, const char *path)
{
    FILE *file = fopen(path, "wbe");
    *log = (struct rnic_log){0};
    if (file == NULL) {
        return errno;
    }
    rnic_log_to(log, file, rnic_log_is_text(path));
    return 0;
}

void rnic_log_close(struct rnic_log *log)
{
    if (log->file != NULL) {
        (void)fclose(log->file);
        log->file = NULL;
    }
}
