/* SPDX-License-Identifier: MIT */
/* The command line of vipl-gen. */
#ifndef VIPL_TOOLS_GEN_H
#define VIPL_TOOLS_GEN_H

#include "traffic.h"

struct gen_options {
    struct traffic_options common;
    struct vipl_dm_send send; /* without its path */
    uint64_t multiplier;      /* millionths; 0: none was given */
    unsigned paces;           /* options that say how fast */
};

/* The exit code, or -1 if there is more to do. */
int gen_parse(int argc, char **argv, struct gen_options *options);

#endif
