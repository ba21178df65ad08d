/* SPDX-License-Identifier: MIT */
/* A line of a log in text: numbers and names, and then the data. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/log.h"
#include "read.h"

/* Takes `word` off the front of the text. */
static bool take(const char **text, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*text, word, length) != 0) {
        return false;
    }
    *text += length;
    return true;
}

/* Takes a number off the front: of digits alone, without a sign or space. */
static bool take_number(const char **text, int base, uint64_t most, uint64_t *out)
{
    char *end;

    if (strchr(base == 16 ? "0123456789abcdef" : "0123456789", **text) == NULL || **text == '\0') {
        return false;
    }
    *out = strtoull(*text, &end, base);
    *text = end;
    return *out <= most;
}

static bool take_time(const char **text, uint64_t *out)
{
    const uint64_t second = 1000000000;
    uint64_t seconds;
    uint64_t rest;
    const char *digits;

    if (!take_number(text, 10, UINT64_MAX / second - 1, &seconds) || !take(text, ".")) {
        return false;
    }
    digits = *text;
    if (!take_number(text, 10, second - 1, &rest) || *text - digits != 9) {
        return false;
    }
    *out = seconds * second + rest;
    return true;
}

static bool take_kind(const char **text, enum rnic_transaction_kind *out)
{
    size_t length = strcspn(*text, " ");
    int kind = log_kind_named(*text, length);

    if (kind < 0) {
        return false;
    }
    *text += length;
    *out = (enum rnic_transaction_kind)kind;
    return true;
}

/* Everything but the data. */
static bool take_head(const char **text, struct rnic_transaction *out)
{
    uint64_t fn;
    uint64_t bar;
    uint64_t bytes;

    if (!take_time(text, &out->time) || !take(text, " fn=") || !take_number(text, 10, UINT16_MAX, &fn) ||
        !take(text, " ") || !take_kind(text, &out->kind)) {
        return false;
    }
    out->failed = take(text, " failed");
    if (!take(text, " bar=") || !take_number(text, 10, UINT8_MAX, &bar) || !take(text, " address=0x") ||
        !take_number(text, 16, UINT64_MAX, &out->address) || !take(text, " value=0x") ||
        !take_number(text, 16, UINT64_MAX, &out->value) || !take(text, " bytes=") ||
        !take_number(text, 10, LOG_MAX_DATA, &bytes)) {
        return false;
    }
    out->fn = (uint16_t)fn;
    out->bar = (uint8_t)bar;
    out->bytes = (uint32_t)bytes;
    return true;
}

static int digit(int character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* The data behind " data=", which come from the file directly: the line's head says how many. */
static bool read_data(struct log_reader *reader, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        int high = digit(getc(reader->file));
        int low = digit(getc(reader->file));
        if (high < 0 || low < 0) {
            return false;
        }
        reader->buffer[i] = (uint8_t)(high << 4 | low);
    }
    return getc(reader->file) == '\n';
}

/* The text up to the data, or up to the end of the line. Returns how it ended. */
static int read_head(struct log_reader *reader, char line[LOG_LINE_BYTES])
{
    static const char data[] = " data=";
    size_t length = 0;
    int character;

    while ((character = getc(reader->file)) != EOF && character != '\n' && length + 1 < LOG_LINE_BYTES) {
        line[length++] = (char)character;
        if (length >= sizeof(data) - 1 &&
            memcmp(line + length - (sizeof(data) - 1), data, sizeof(data) - 1) == 0) {
            line[length - (sizeof(data) - 1)] = '\0';
            return '=';
        }
    }
    line[length] = '\0';
    return length == 0 && character == EOF ? EOF : character;
}

enum log_got log_read_line(struct log_reader *reader, struct rnic_transaction *out)
{
    char line[LOG_LINE_BYTES];
    const char *text = line;
    int end = read_head(reader, line);

    if (end == EOF && line[0] == '\0') {
        return LOG_GOT_END;
    }
    reader->place++;
    if (end == EOF) {
        return log_read_damage(reader, "the line is cut off");
    }
    *out = (struct rnic_transaction){0};
    if ((end != '\n' && end != '=') || !take_head(&text, out) || *text != '\0') {
        return log_read_damage(reader, "the line is not one of a log");
    }
    if (end == '=') {
        if (!log_read_room(reader, out->bytes)) {
            return log_read_damage(reader, "there is no memory for its data");
        }
        if (!read_data(reader, out->bytes)) {
            return log_read_damage(reader, "its data are not as many bytes as it says");
        }
        out->data = reader->buffer;
    }
    return LOG_GOT_ONE;
}
