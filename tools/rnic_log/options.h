/* SPDX-License-Identifier: MIT */
/* The command line of vipl-rnic-log. */
#ifndef RNIC_LOG_OPTIONS_H
#define RNIC_LOG_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/rnic/card/card.h"

enum log_output { LOG_AS_LOG, LOG_AS_WORDS, LOG_AS_VCD, LOG_AS_COVERAGE, LOG_AS_REPLAY };

/* A place in the log: a time, a time after its first transaction, or a transaction's number. */
struct log_place {
    bool is_set;
    bool is_relative;
    uint64_t ns;
    uint64_t number; /* from 1 on; 0: it is a time */
};

struct log_options {
    const char *output; /* NULL: standard output */
    enum log_output what;
    bool json;
    struct log_place from;
    struct log_place until;
    bool until_failed; /* ends with the first DMA that was refused */
    bool some_functions;
    bool functions[RNIC_CARD_MAX_FUNCTIONS];
    uint32_t kinds;   /* a bit for each kind that is wanted */
    int64_t qp;       /* -1: any */
    const char *save; /* where the replayed card goes behind `until`, or NULL */
    const char *load; /* the saved card that a replay begins with, or NULL */
    const char *card; /* the socket of the card of a replay; NULL: one of this program */
    unsigned wait_ms; /* for that card, while it does nothing */
    char **files;
    int count;
};

/* The exit code, or -1 if there is more to do. */
int log_parse(int argc, char **argv, struct log_options *options);

#endif
