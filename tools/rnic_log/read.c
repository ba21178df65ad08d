/* SPDX-License-Identifier: MIT */
/* What reading a log is in both formats. */
#include "read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/log.h"
#include "tool_text.h"

bool log_read_room(struct log_reader *reader, size_t bytes)
{
    uint8_t *larger;

    if (bytes <= reader->room) {
        return true;
    }
    larger = realloc(reader->buffer, bytes);
    if (larger == NULL) {
        return false;
    }
    reader->buffer = larger;
    reader->room = bytes;
    return true;
}

int log_read_from(struct log_reader *reader, FILE *file)
{
    int first = getc(file);

    *reader = (struct log_reader){.file = file};
    if (first == EOF && ferror(file)) { /* a folder */
        int error = errno;
        log_read_close(reader);
        return error;
    }
    /* A section of pcapng begins with 0x0A; a text in which nothing has happened yet is empty. */
    reader->is_text = first == EOF || (first >= '0' && first <= '9');
    if (first != EOF) {
        (void)ungetc(first, file);
    }
    return 0;
}

int log_read_open(struct log_reader *reader, const char *path)
{
    FILE *file = fopen(path, "rb");

    return file == NULL ? errno : log_read_from(reader, file);
}

int log_kind_named(const char *name, size_t length)
{
    for (int kind = 0; kind < RNIC_TRANSACTION_KINDS; kind++) {
        const char *known = rnic_log_kind((enum rnic_transaction_kind)kind);
        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            return kind;
        }
    }
    return -1;
}

enum log_got log_read_next(struct log_reader *reader, struct rnic_transaction *out)
{
    if (reader->damage != NULL) {
        return LOG_GOT_DAMAGE;
    }
    return reader->is_text ? log_read_line(reader, out) : log_read_block(reader, out);
}

void log_read_complain(const struct log_reader *reader, const char *path)
{
    if (reader->damage != NULL) {
        tool_complain("%s: %s %" PRIu64 ": %s", path, reader->is_text ? "line" : "byte", reader->place,
                      reader->damage);
    }
}

void log_read_close(struct log_reader *reader)
{
    if (reader->file != NULL) {
        (void)fclose(reader->file);
    }
    free(reader->buffer);
    *reader = (struct log_reader){0};
}
