/* SPDX-License-Identifier: MIT */
/* Reading a log of the card, in either of the formats that docs/rnic/log.md specifies. */
#ifndef RNIC_LOG_READ_H
#define RNIC_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "devices/rnic/card/card.h"

enum {
    LOG_LINE_BYTES = 192,           /* of a line of text, without its data */
    LOG_MAX_DATA = 16 * 1024 * 1024 /* of a transaction: more is no log */
};

enum log_got { LOG_GOT_ONE, LOG_GOT_END, LOG_GOT_DAMAGE };

struct log_reader {
    FILE *file;
    bool is_text;
    bool big;             /* byte order of pcapng's own blocks */
    unsigned interfaces;  /* of this section */
    uint8_t link_type[8]; /* of each: 0 is one that is not of this log */
    uint8_t decimals[8];  /* of each: its times are in 10 to the minus that of a second */
    uint64_t place;       /* line of text, or offset of the block */
    const char *damage;   /* what is wrong there */
    uint8_t *buffer;      /* a block, or the data of a line */
    size_t room;
};

/* Opens a log, whose first bytes tell its format. Returns an errno value; what is no log is found
 * by log_read_next(). */
int log_read_open(struct log_reader *reader, const char *path);
/* The same of a file that is open for reading, and is closed with the reader. */
int log_read_from(struct log_reader *reader, FILE *file);
/* The next transaction. `data` in it lasts until the next call. After damage there is no more. */
enum log_got log_read_next(struct log_reader *reader, struct rnic_transaction *out);
/* Says on standard error what is damaged, if something is. */
void log_read_complain(const struct log_reader *reader, const char *path);
void log_read_close(struct log_reader *reader);

/* The kind with that name, as the text format has it; -1: there is none. */
int log_kind_named(const char *name, size_t length);

/* --- between the files of the reader --- */

/* Room for that number of bytes in `buffer`; false: there is no memory. */
bool log_read_room(struct log_reader *reader, size_t bytes);
enum log_got log_read_line(struct log_reader *reader, struct rnic_transaction *out);
enum log_got log_read_block(struct log_reader *reader, struct rnic_transaction *out);
static inline enum log_got log_read_damage(struct log_reader *reader, const char *what)
{
    reader->damage = what;
    return LOG_GOT_DAMAGE;
}

#endif
