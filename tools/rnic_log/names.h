/* SPDX-License-Identifier: MIT */
/* The names of the card's registers and of the values in its rings and frames. names.c is made from
 * src/rnic/registers.json. */
#ifndef RNIC_LOG_NAMES_H
#define RNIC_LOG_NAMES_H

#include <stdint.h>

enum log_table {
    LOG_COMMAND,
    LOG_STATUS,
    LOG_EVENT,
    LOG_ERROR,
    LOG_WORK,
    LOG_QP_STATE,
    LOG_EFE_TYPE,
    LOG_CONTROL,
    LOG_TABLES
};

struct log_name {
    uint32_t value;
    const char *name;
};
struct log_names {
    const char *title; /* of the table, as the data sheet has it */
    const struct log_name *of;
    unsigned count;
};
extern const struct log_names log_tables[LOG_TABLES];

/* What a driver may do to a register. */
enum { LOG_MAY_READ = 1, LOG_MAY_WRITE = 2 };
struct log_register {
    const char *name;
    uint32_t offset; /* in BAR0 */
    unsigned access;
};
extern const struct log_register log_registers[];
extern const unsigned log_register_count;

/* The place in its table of the value, or -1. */
int log_place_of(enum log_table table, uint32_t value);
/* The name of the value, or "?". */
const char *log_name_of(enum log_table table, uint32_t value);
/* The register at this offset of BAR0, or NULL. AOTF is all of its pages. */
const struct log_register *log_register_at(uint64_t offset);

#endif
