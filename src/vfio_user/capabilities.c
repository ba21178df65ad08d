/* SPDX-License-Identifier: MIT */
/*
 * A JSON reader as small as the need: it goes through the text once, checks all of it, and picks
 * out the numbers and truth values of the object "capabilities". A name with an escape sequence is
 * none of those known.
 */
#include "vfio_user/capabilities.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 16, MAX_NAME = 24, CAPABILITIES_DEPTH = 2 };

const struct vfu_capabilities vfu_capabilities_default = {1, 1 << 20, 65535, false, false};

struct reader {
    const char *at;
    const char *end;
    unsigned depth; /* of objects and lists */
    bool is_inside; /* of the object "capabilities" */
    /* of the member whose value is read; cut off, if it is longer than any known */
    char name[MAX_NAME];
    struct vfu_capabilities *out;
};

static char peek(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
    return (char)(r->at < r->end ? *r->at : '\0');
}

static bool accept_char(struct reader *r, char wanted)
{
    bool is_next = peek(r) == wanted;
    r->at += is_next ? 1 : 0;
    return is_next;
}

/* Reads a string; `name`: where its first characters go, or NULL. */
static bool read_string(struct reader *r, char *name)
{
    size_t length = 0;
    if (!accept_char(r, '"')) {
        return false;
    }
    while (r->at < r->end && *r->at != '"' && (unsigned char)*r->at >= ' ') {
        if (name != NULL && length < MAX_NAME - 1) {
            name[length++] = *r->at;
        }
        r->at += *r->at == '\\' && r->end - r->at > 1 ? 2 : 1;
    }
    if (name != NULL) {
        name[length] = '\0';
    }
    return r->at < r->end && *r->at++ == '"';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_digits(struct reader *r)
{
    while (r->at < r->end && is_digit(*r->at)) {
        r->at++;
    }
}

/* A number; true as `*whole` if it is a natural number that fits, which is what every known one
 * is. */
static bool parse_number(struct reader *r, uint64_t *value, bool *whole)
{
    const char *begin = r->at;
    *value = 0;
    *whole = r->at < r->end && is_digit(*r->at);
    r->at += r->at < r->end && *r->at == '-' ? 1 : 0;
    for (; r->at < r->end && is_digit(*r->at); r->at++) {
        unsigned digit = (unsigned)(*r->at - '0');
        *whole = *whole && *value <= (UINT64_MAX - digit) / 10;
        *value = *value * 10 + digit;
    }
    while (r->at < r->end &&
           (*r->at == '.' || *r->at == 'e' || *r->at == 'E' || *r->at == '+' || *r->at == '-')) {
        *whole = false;
        r->at++;
        skip_digits(r);
    }
    return r->at > begin && is_digit(r->at[-1]);
}

static uint64_t *known_number(struct reader *r)
{
    if (!r->is_inside || r->depth != CAPABILITIES_DEPTH) {
        return NULL;
    }
    return strcmp(r->name, "max_msg_fds") == 0          ? &r->out->max_fds
           : strcmp(r->name, "max_data_xfer_size") == 0 ? &r->out->max_data
           : strcmp(r->name, "max_dma_maps") == 0       ? &r->out->max_maps
                                                        : NULL;
}

static bool *known_truth(struct reader *r)
{
    if (!r->is_inside || r->depth != CAPABILITIES_DEPTH) {
        return NULL;
    }
    return strcmp(r->name, "write_multiple") == 0     ? &r->out->write_multiple
           : strcmp(r->name, "vipl_memory_file") == 0 ? &r->out->memory_file
                                                      : NULL;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t length = strlen(word);
    bool is_next = (size_t)(r->end - r->at) >= length && memcmp(r->at, word, length) == 0;
    r->at += is_next ? length : 0;
    return is_next;
}

/* A value that is neither object nor list. */
static bool read_plain(struct reader *r)
{
    uint64_t *number = known_number(r);
    bool *truth = known_truth(r);
    uint64_t value;
    bool whole;
    if (peek(r) == '"') {
        return number == NULL && truth == NULL && read_string(r, NULL);
    }
    bool is_true = take_word(r, "true");
    if (is_true || take_word(r, "false")) {
        if (truth != NULL) {
            *truth = is_true;
        }
        return number == NULL;
    }
    if (take_word(r, "null")) {
        return number == NULL && truth == NULL;
    }
    if (!parse_number(r, &value, &whole) || truth != NULL || (number != NULL && !whole)) {
        return false;
    }
    if (number != NULL) {
        *number = value;
    }
    return true;
}

static bool read_value(struct reader *r);

/* What stands between the brackets; members of an object have names. */
static bool read_members(struct reader *r, char end, bool has_names)
{
    if (accept_char(r, end)) {
        return true;
    }
    do {
        if (has_names && (!read_string(r, r->name) || !accept_char(r, ':'))) {
            return false;
        }
        if (!read_value(r)) {
            return false;
        }
    } while (accept_char(r, ','));
    return accept_char(r, end);
}

static bool read_value(struct reader *r) /* recursive: MAX_DEPTH at most */
{
    bool is_object = peek(r) == '{';
    if (!is_object && peek(r) != '[') {
        return read_plain(r);
    }
    if (known_number(r) != NULL || known_truth(r) != NULL || r->depth == MAX_DEPTH) {
        return false;
    }
    bool was_inside = r->is_inside;
    r->is_inside = was_inside ||
                   (is_object && r->depth == CAPABILITIES_DEPTH - 1 && strcmp(r->name, "capabilities") == 0);
    r->at++;
    r->depth++;
    r->name[0] = '\0';
    bool good = read_members(r, is_object ? '}' : ']', is_object);
    r->depth--;
    r->name[0] = '\0';
    r->is_inside = was_inside;
    return good;
}

bool vfu_capabilities_read(const char *text, size_t length, struct vfu_capabilities *out)
{
    struct vfu_capabilities read = vfu_capabilities_default;
    length -= length > 0 && text[length - 1] == '\0' ? 1 : 0;
    struct reader r = {.at = text, .end = text + length, .out = &read};
    if (length > 0 && (peek(&r) != '{' || !read_value(&r) || peek(&r) != '\0' || r.at != r.end)) {
        return false;
    }
    *out = read;
    return true;
}

size_t vfu_capabilities_write(char text[VFU_MAX_TEXT], const struct vfu_capabilities *capabilities)
{
    int length = snprintf(text, VFU_MAX_TEXT,
                          "{\"capabilities\":{\"max_msg_fds\":%" PRIu64 ",\"max_data_xfer_size\":%" PRIu64
                          ",\"max_dma_maps\":%" PRIu64 "%s%s}}",
                          capabilities->max_fds, capabilities->max_data, capabilities->max_maps,
                          capabilities->write_multiple ? ",\"write_multiple\":true" : "",
                          capabilities->memory_file ? ",\"vipl_memory_file\":true" : "");
    return (size_t)length + 1;
}
